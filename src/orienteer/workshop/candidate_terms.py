"""Terms that a clause may have: those of the wanted passages and of unwanted matches, each looked up once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import Engine, ListsMatches
from orienteer.errors import QueryError
from orienteer.query import Field, Refinement

PHRASES = 400  # phrases of two words that are tried, those of most wanted passages

_WORD = re.compile(r"\w+")

Bools = NDArray[np.bool_]
Key = tuple[Field, str]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms by number: their passages, how many, and which of the wanted ones are among them [terms, wanted]."""

    keys: Sequence[Key]
    lists: Sequence[NDArray[np.uint32]]
    sizes: NDArray[np.int64]
    holds: Bools


class TermCache:
    """Terms that were met, each looked up once."""

    def __init__(self, engine: ListsMatches, wanted: NDArray[np.int64]) -> None:
        self._engine, self._wanted = engine, wanted
        self._known: dict[Key, tuple[NDArray[np.uint32], Bools]] = {}
        self._keys_of: dict[int, frozenset[Key]] = {}

    def terms(self, keys: Iterable[Key]) -> Terms:
        """Those of the keys that some passage holds."""
        unique = list(dict.fromkeys(keys))
        new = [key for key in unique if key not in self._known]
        for key, passages in zip(new, self._engine.matches(new) if new else (), strict=True):
            self._known[key] = passages, members(passages, self._wanted)
        held = [key for key in unique if self._known[key][0].size]
        lists = [self._known[key][0] for key in held]
        holds = np.stack([self._known[key][1] for key in held]) if held else np.zeros((0, self._wanted.size), np.bool_)
        return Terms(held, lists, np.array([passages.size for passages in lists], np.int64), holds)

    def passages(self, key: Key) -> NDArray[np.uint32]:
        self.terms([key])
        return self._known[key][0]

    def keys_of(self, number: int) -> frozenset[Key]:
        """The terms of a passage, by field."""
        if (known := self._keys_of.get(number)) is None:
            known = self._keys_of[number] = frozenset(_keys_of(self._engine, self._engine.id_at(number)))
        return known


def members(passages: NDArray[np.uint32], numbers: NDArray[np.int64]) -> Bools:
    """Which of the numbers are among the passages, which rise; a few numbers need no walk over them."""
    if not passages.size or not numbers.size:
        return np.zeros(numbers.size, np.bool_)
    place = np.minimum(np.searchsorted(passages, numbers.astype(np.uint32)), passages.size - 1)
    return np.asarray(passages[place] == numbers, np.bool_)


def wanted_keys(engine: Engine, ids: Sequence[str]) -> Iterator[Key]:
    """Terms of both fields, whole titles, and the phrases of two words that most passages have."""
    words: Counter[Key] = Counter()
    phrases: Counter[Key] = Counter()
    known: dict[str, bool] = {}
    for passage in engine.passages(ids):
        words.update(_keys_of(engine, passage.id))
        title = engine.analyze(passage.title)
        if len(title) > 1 and _usable(" ".join(_WORD.findall(passage.title))):
            words["title", " ".join(_WORD.findall(passage.title.lower()))] += 1
        pairs = set()
        tokens = _WORD.findall(passage.contents.lower())
        for one, two in pairwise(tokens):
            for token in (one, two):
                if token not in known:
                    known[token] = engine.analyze(token) == [token]
            if known[one] and known[two] and _usable(f"{one} {two}"):
                pairs.add(f"{one} {two}")
        phrases.update(("contents", pair) for pair in pairs)
    yield from sorted(words, key=lambda key: (-words[key], key))
    often = [key for key, count in phrases.items() if count > 1 or len(ids) == 1]
    yield from sorted(often, key=lambda key: (-phrases[key], key))[:PHRASES]


def _keys_of(engine: Engine, id: str) -> set[Key]:
    [passage] = engine.passages([id])
    keys: set[Key] = {("contents", term) for term in engine.analyze(passage.contents)}
    keys |= {("title", term) for term in engine.analyze(passage.title)}
    return {(field, term) for field, term in keys if _usable(term)}


def _usable(term: str) -> bool:
    try:
        Refinement("+", "contents", term)
    except QueryError:
        return False
    return True
