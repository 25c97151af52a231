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
from orienteer.engine.protocol import Engine, StoresTerms, StoresTermsInBulk

_CACHED_PASSAGES = 1 << 14  # the same ones come back at every step of a session


class PassageTerms(Protocol):
    """The terms of passages' `contents`, as text and as numbers."""

    def counts(self, passage: Passage) -> Mapping[str, int]:
        """How often each term occurs, in order of appearance."""
        ...

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        """P(w | C): the share of the term in the collection; `passages` are some of it, by their counts."""
        ...

    def streams(self, passages: Sequence[Passage]) -> list[NDArray[np.int64]]:
        """Of each passage the numbers of the terms of `contents` in order."""
        ...

    def numbers(self, terms: Sequence[str]) -> list[int]:
        """The number of each term; below 0 where none is known."""
        ...

    def texts(self, numbers: NDArray[np.int64]) -> list[str]:
        """The terms of numbers."""
        ...

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sorted by the terms' bytes, as an index numbers them: a sum over terms then rounds alike for every engine."""
        ...

    def idfs(self, numbers: NDArray[np.int64]) -> list[float]:
        """In `contents`."""
        ...


def passage_terms(engine: Engine) -> PassageTerms:
    """From the terms that the index stores, where it stores some, else by analysing the passages."""
    return IndexedTerms(engine) if isinstance(engine, StoresTerms) else AnalysedTerms(engine)


class IndexedTerms:
    """From an engine that stores every passage's terms and their exact frequencies."""

    def __init__(self, engine: StoresTerms) -> None:
        self._engine = engine
        self._counts = lru_cache(_CACHED_PASSAGES)(self._count)
        self._background = lru_cache(1 << 17)(self._probability)

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._counts(passage.id)

    def background(self, term: str, passages: Sequence[Mapping[str, int]]) -> float:
        return self._background(term)

    def streams(self, passages: Sequence[Passage]) -> list[NDArray[np.int64]]:
        if isinstance(self._engine, StoresTermsInBulk):
            return self._engine.terms_of_passages([passage.id for passage in passages])
        return [self._engine.passage_terms(passage.id) for passage in passages]

    def numbers(self, terms: Sequence[str]) -> list[int]:
        return self._engine.term_numbers(terms)

    def texts(self, numbers: NDArray[np.int64]) -> list[str]:
        if isinstance(self._engine, StoresTermsInBulk):
            return self._engine.term_texts(numbers)
        return [self._engine.term(number) for number in numbers.tolist()]

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.sort(numbers)

    def idfs(self, numbers: NDArray[np.int64]) -> list[float]:
        if isinstance(self._engine, StoresTermsInBulk):
            return self._engine.term_idfs(numbers)
        return [self._engine.term_idf(number) for number in numbers.tolist()]

    def _count(self, passage_id: str) -> Mapping[str, int]:
        terms, first, counts = np.unique(self._engine.passage_terms(passage_id), return_index=True, return_counts=True)
        return {self._engine.term(int(terms[i])): int(counts[i]) for i in np.argsort(first)}

    def _probability(self, term: str) -> float:
        [number] = self._engine.term_numbers([term])
        return self._engine.term_probability(number) if number >= 0 else 0.0


class AnalysedTerms:
    """For any engine: terms by its analyser, P(w | C) estimated from its idf.

    e^-idf is the share of passages that have the term; divided by the distinct terms of a passage it is about the
    term's share of the collection.
    """

    def __init__(self, engine: Engine) -> None:
        self._idf = lru_cache(1 << 17)(lambda term: engine.idf("contents", term))
        self._absent = engine.idf("contents", "no such term")  # no term has a blank in it
        self._analysed = lru_cache(_CACHED_PASSAGES)(lambda text: tuple(engine.analyze(text)))
        self._counts = lru_cache(_CACHED_PASSAGES)(lambda text: Counter(self._analysed(text)))
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def counts(self, passage: Passage) -> Mapping[str, int]:
        return self._counts(passage.contents)

    def streams(self, passages: Sequence[Passage]) -> list[NDArray[np.int64]]:
        return [np.array([self._number(term) for term in self._analysed(p.contents)], np.int64) for p in passages]

    def numbers(self, terms: Sequence[str]) -> list[int]:
        return [self._number(term) for term in terms]

    def texts(self, numbers: NDArray[np.int64]) -> list[str]:
        return [self._texts[number] for number in numbers.tolist()]

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(sorted(numbers.tolist(), key=lambda number: self._texts[number].encode()), np.int64)

    def idfs(self, numbers: NDArray[np.int64]) -> list[float]:
        return [self._idf(self._texts[number]) for number in numbers.tolist()]

    def _number(self, term: str) -> int:
        """Terms are numbered as they come."""
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
