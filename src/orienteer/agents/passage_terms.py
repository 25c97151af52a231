"""The index terms of whole passages, and how common a term is in the collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp
from typing import Protocol

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine

_REMEMBERED = 1 << 14  # passages; the same ones come back at every step of a session


class PassageTerms(Protocol):
    def counts(self, passage: Passage) -> Mapping[str, int]:
        """How often each term stands in `contents`, in order of appearance."""
        ...

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        """P(w | C): the share of the term in the collection; `passages` are some of it, by their counts."""
        ...


def passage_terms(engine: Engine) -> PassageTerms:
    """From the embedded index's own arrays where there are some, else by analysing the passages."""
    from orienteer.engine.embedded import EmbeddedEngine

    return IndexedTerms(engine) if isinstance(engine, EmbeddedEngine) else AnalysedTerms(engine)


class IndexedTerms:
    """From the embedded index: the stream of a passage's terms, and exact frequencies."""

    def __init__(self, engine: Engine) -> None:
        from orienteer.engine.embedded import EmbeddedEngine

        assert isinstance(engine, EmbeddedEngine)
        self._index = engine.index
        self._counts = lru_cache(_REMEMBERED)(self._read)
        self._background = lru_cache(1 << 17)(self._look_up)

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._counts(passage.id)

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        return self._background(term)

    def _read(self, passage_id: str) -> Mapping[str, int]:
        number = self._index.number(passage_id)
        if number is None:
            return {}
        ends = self._index.array("stream_ends")
        stream = self._index.array("stream")[int(ends[number - 1]) if number else 0 : int(ends[number])]
        terms, first, counts = np.unique(stream[stream >= 0], return_index=True, return_counts=True)
        return {self._index.term(int(terms[i])): int(counts[i]) for i in np.argsort(first)}

    def _look_up(self, term: str) -> float:
        from orienteer.engine.clauses import find_terms

        [number] = find_terms(self._index, [term]).tolist()
        if number < 0:
            return 0.0
        offsets, codes = self._index.array("offsets"), self._index.array("codes")
        frequencies = self._index.array("pairs").reshape(-1, 3)[:, 1]
        occurrences = int(frequencies[codes[offsets[number] : offsets[number + 1]]].sum())
        return occurrences / int(self._index.field_counts[0, 1])


class AnalysedTerms:
    """For any engine: terms by its analyser, P(w | C) estimated from its idf.

    e^-idf is the share of passages that have the term; divided by the distinct terms of a passage it is about the
    term's share of the collection.
    """

    def __init__(self, engine: Engine) -> None:
        self._idf = lru_cache(1 << 17)(lambda term: engine.idf("contents", term))
        self._absent = engine.idf("contents", "no such term")  # no term has a blank in it
        self._analysed = lru_cache(_REMEMBERED)(lambda text: Counter(engine.analyze(text)))

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._analysed(passage.contents)

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        idf = self._idf(term)
        if idf >= self._absent:
            return 0.0
        distinct = sum(map(len, passages)) / max(1, len(passages))
        return exp(-idf) / max(1.0, distinct)
