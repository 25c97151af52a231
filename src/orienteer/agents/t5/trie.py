"""A trie over token sequences: the simplest constraint."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

_NAME = -1  # no token has this id; it holds what ends here

Node = dict[int, Any]


class Trie:
    """Sequences of tokens, each with a name; where two are the same, the first name stays."""

    def __init__(self, sequences: Iterable[tuple[Sequence[int], Hashable]] = ()) -> None:
        self.root: Node = {}
        for tokens, name in sequences:
            self.add(tokens, name)

    def add(self, tokens: Sequence[int], name: Hashable) -> None:
        node = self.root
        for token in tokens:
            node = node.setdefault(token, {})
        node.setdefault(_NAME, name)

    def allowed(self, node: Node) -> list[int]:
        return [token for token in node if token != _NAME]

    def ends(self, node: Node) -> Any:
        return node.get(_NAME)

    def advance(self, node: Node, token: int) -> Node:
        following: Node = node[token]
        return following

    def __bool__(self) -> bool:
        return bool(self.root)
