"""A constraint on answers: only words that stand in the passages, one after another, can be written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.codec import Codec

_BREAK = -1  # between texts; no token has this id

Node = tuple[NDArray[np.int64], int]  # where what was written may begin, and how many tokens it has


class Spans:
    """Whole words of the texts; what was written is called by the texts' own characters, case and accents included."""

    def __init__(self, codec: Codec, texts: Sequence[str], most: int) -> None:
        ids, starts, ends, owners = [_BREAK], [0], [0], [0]
        for number, cut in enumerate(codec.cut(texts)):
            for token, (start, end) in cut:
                ids.append(token)
                starts.append(start)
                ends.append(end)
                owners.append(number)
            ids.append(_BREAK)
            starts.append(0)
            ends.append(0)
            owners.append(number)
        self._texts, self._most = texts, most
        self._ids, self._starts, self._ends, self._owners = map(np.array, (ids, starts, ends, owners))
        places = range(len(ids))
        known = [ids[p] not in (_BREAK, codec.unknown) for p in places]
        first = [known[p] and _opens(texts[owners[p]], starts[p]) for p in places]
        self._last = np.array([known[p] and _closes(texts[owners[p]], ends[p]) for p in places])
        self._ids[~np.array(known)] = _BREAK
        self.root: Node = (np.flatnonzero(first), 0)

    def allowed(self, node: Node) -> list[int]:
        begun, size = node
        if size >= self._most:
            return []
        # A text's last token is followed by a break, so this never leaves the array.
        return [token for token in np.unique(self._ids[begun + size]).tolist() if token != _BREAK]

    def ends(self, node: Node) -> str | None:
        begun, size = node
        whole = begun[self._last[begun + size - 1]] if size else begun[:0]
        if not len(whole):
            return None
        first = int(whole[0])
        text = self._texts[int(self._owners[first])]
        return text[int(self._starts[first]) : int(self._ends[first + size - 1])]

    def advance(self, node: Node, token: int) -> Node:
        begun, size = node
        return begun[self._ids[begun + size] == token], size + 1


def _opens(text: str, at: int) -> bool:
    """Whether a word, number or sign begins here."""
    return text[at : at + 1].isalnum() and not (at and text[at - 1].isalnum())


def _closes(text: str, at: int) -> bool:
    return bool(at) and text[at - 1].isalnum() and not text[at : at + 1].isalnum()
