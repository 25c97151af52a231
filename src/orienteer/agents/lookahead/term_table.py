"""Index terms by number, with what a look asks of each: rarity, row in the word table, whether it is a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.passage_terms import passage_terms
from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine

_REMEMBERED = 1 << 15  # passages; a step's come back at the next
_UNKNOWN = -2
YEAR, NUMBER = 2, 1


class Words:
    """Numbers of terms, and three arrays by number that grow as terms are met."""

    def __init__(self, engine: Engine, pieces: Mapping[str, int]) -> None:
        self._terms, self._pieces = passage_terms(engine), pieces
        self._streams: dict[str, NDArray[np.int64]] = {}  # by passage
        self.idf = np.zeros(0, np.float32)
        self.piece = np.zeros(0, np.int32)  # row of the word table; -1: no such word
        self.kind = np.zeros(0, np.int8)  # YEAR, NUMBER or 0

    def numbers(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Those of terms that are known."""
        found = np.array(self._terms.numbers(terms), np.int64)
        return self.learn(found[found >= 0])

    def streams(self, passages: Sequence[Passage]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The passages' terms end to end, and where each ends."""
        if len(self._streams) > _REMEMBERED:
            self._streams = {}  # another thread may still look into the old one
        known = self._streams
        rows = [known[p.id] if p.id in known else known.setdefault(p.id, self._terms.stream(p)) for p in passages]
        flat = np.concatenate([np.empty(0, np.int64), *rows])
        self.learn(flat)
        return flat, np.cumsum([len(row) for row in rows], dtype=np.int64)

    def learn(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same numbers; what was not known of them is now."""
        highest = int(numbers.max(initial=-1))
        if highest >= len(self.piece):
            more = max(highest + 1, 2 * len(self.piece)) - len(self.piece)
            self.idf = np.append(self.idf, np.zeros(more, np.float32))
            self.piece = np.append(self.piece, np.full(more, _UNKNOWN, np.int32))
            self.kind = np.append(self.kind, np.zeros(more, np.int8))
        for number in np.unique(numbers[self.piece[numbers] == _UNKNOWN]).tolist():
            text = self._terms.text(number)
            self.idf[number] = self._terms.idf(number)
            self.piece[number] = self._pieces.get(text, -1)
            if text.isdigit():
                self.kind[number] = YEAR if len(text) == 4 and text[0] in "12" else NUMBER
        return numbers
