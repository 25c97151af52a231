"""The index terms of whole passages, and how common a term is in the collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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

    def stream(self, passage: Passage) -> NDArray[np.int64]:
        """The numbers of the terms of `contents` in order."""
        ...

    def numbers(self, terms: Sequence[str]) -> list[int]:
        """The number of each term; below 0 where none is known."""
        ...

    def text(self, number: int) -> str:
        """The term of a number."""
        ...

    def idf(self, number: int) -> float:
        """In `contents`."""
        ...


def passage_terms(engine: Engine) -> PassageTerms:
    """From the embedded index's own arrays where there are some, else by analysing the passages."""
    from orienteer.engine.embedded.engine import EmbeddedEngine

    return IndexedTerms(engine) if isinstance(engine, EmbeddedEngine) else AnalysedTerms(engine)


class IndexedTerms:
    """From the embedded index: the stream of a passage's terms, and exact frequencies."""

    def __init__(self, engine: Engine) -> None:
        from orienteer.engine.embedded.engine import EmbeddedEngine

        assert isinstance(engine, EmbeddedEngine)
        self._index = engine.index
        self._counts = lru_cache(_REMEMBERED)(self._read)
        self._background = lru_cache(1 << 17)(self._look_up)

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._counts(passage.id)

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        return self._background(term)

    def stream(self, passage: Passage) -> NDArray[np.int64]:
        return self._stream(passage.id)

    def numbers(self, terms: Sequence[str]) -> list[int]:
        from orienteer.engine.embedded.clauses import find_terms

        found: list[int] = find_terms(self._index, list(terms)).tolist() if terms else []
        return found

    def text(self, number: int) -> str:
        return self._index.term(number)

    def idf(self, number: int) -> float:
        return float(self._index.idf(0, self._index.frequency(0, number)))

    def _stream(self, passage_id: str) -> NDArray[np.int64]:
        number = self._index.number(passage_id)
        if number is None:
            return np.empty(0, np.int64)
        ends = self._index.array("stream_ends")
        stream = self._index.array("stream")[int(ends[number - 1]) if number else 0 : int(ends[number])]
        return stream[stream >= 0].astype(np.int64)  # without the places of stop words

    def _read(self, passage_id: str) -> Mapping[str, int]:
        stream = self._stream(passage_id)
        terms, first, counts = np.unique(stream, return_index=True, return_counts=True)
        return {self._index.term(int(terms[i])): int(counts[i]) for i in np.argsort(first)}

    def _look_up(self, term: str) -> float:
        [number] = self.numbers([term])
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
        self._analysed = lru_cache(_REMEMBERED)(lambda text: tuple(engine.analyze(text)))
        self._counts = lru_cache(_REMEMBERED)(lambda text: Counter(self._analysed(text)))
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._counts(passage.contents)

    def stream(self, passage: Passage) -> NDArray[np.int64]:
        return np.array([self._number(term) for term in self._analysed(passage.contents)], np.int64)

    def numbers(self, terms: Sequence[str]) -> list[int]:
        return [self._number(term) for term in terms]

    def text(self, number: int) -> str:
        return self._texts[number]

    def idf(self, number: int) -> float:
        return self._idf(self._texts[number])

    def _number(self, term: str) -> int:
        """As they come."""
        number = self._numbers.setdefault(term, len(self._texts))
        if number == len(self._texts):
            self._texts.append(term)
        return number

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        idf = self._idf(term)
        if idf >= self._absent:
            return 0.0
        distinct = sum(map(len, passages)) / max(1, len(passages))
        return exp(-idf) / max(1.0, distinct)
