"""The embedded engine: Lucene's results from memory-mapped arrays, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import refine as refining
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import Compiled, Rows, compile_query, find_terms, text_of, too_many_clauses
from orienteer.engine.embedded.explain import Explanation, explain
from orienteer.engine.embedded.index import FIELD_NUMBER, NO_TERM, Index
from orienteer.engine.embedded.kernels import search as kernels
from orienteer.engine.protocol import Hit
from orienteer.errors import UnknownFieldError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

T = TypeVar("T")


class Hits(Sequence[Hit]):
    """A result list that makes its `Hit`s when they are looked at; `numbers` and `scores` are the arrays behind it."""

    __slots__ = ("_index", "numbers", "scores")

    def __init__(self, index: Index, numbers: NDArray[np.int64], scores: NDArray[np.float32]):
        self._index, self.numbers, self.scores = index, numbers, scores

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Hits: ...
    def __getitem__(self, at: int | slice) -> Hit | Hits:
        if isinstance(at, slice):
            return Hits(self._index, self.numbers[at], self.scores[at])
        return Hit(self._index.id(int(self.numbers[at])), float(self.scores[at]))

    def __iter__(self) -> Iterator[Hit]:
        for number, score in zip(self.numbers.tolist(), self.scores.tolist(), strict=True):
            yield Hit(self._index.id(number), score)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    __hash__ = None  # type: ignore[assignment]


class HitLists(Sequence[Hits]):
    """One result list a refinement; `numbers`, `scores` [refinements, k] and `counts` are the arrays behind them."""

    __slots__ = ("_index", "counts", "numbers", "scores")

    def __init__(
        self, index: Index, numbers: NDArray[np.int64], scores: NDArray[np.float32], counts: NDArray[np.int64]
    ):
        self._index, self.numbers, self.scores, self.counts = index, numbers, scores, counts

    @classmethod
    def empty(cls, index: Index, size: int) -> HitLists:
        return cls(index, np.empty((size, 0), np.int64), np.empty((size, 0), np.float32), np.zeros(size, np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, at: int) -> Hits: ...
    @overload
    def __getitem__(self, at: slice) -> HitLists: ...
    def __getitem__(self, at: int | slice) -> Hits | HitLists:
        if isinstance(at, slice):
            return HitLists(self._index, self.numbers[at], self.scores[at], self.counts[at])
        count = self.counts[at]
        return Hits(self._index, self.numbers[at, :count], self.scores[at, :count])

    def take(self, rows: Sequence[int]) -> HitLists:
        return HitLists(self._index, self.numbers[rows], self.scores[rows], self.counts[rows])

    def joined(self, other: HitLists) -> HitLists:
        """Both, one after the other; of the same index and k."""
        return HitLists(
            self._index,
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.counts, other.counts]),
        )

    def distinct(self) -> tuple[list[str], NDArray[np.int64]]:
        """All hits, each once, in order of appearance; where each list's are among these [lists, k], -1: none."""
        there = np.arange(self.numbers.shape[1]) < self.counts[:, None]
        numbers, first, back = np.unique(self.numbers[there], return_index=True, return_inverse=True)
        order = np.argsort(first)
        places = np.full(self.numbers.shape, -1, np.int64)
        places[there] = np.argsort(order)[back]
        return [self._index.id(number) for number in numbers[order].tolist()], places

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class EmbeddedEngine:
    """`Engine` over an index on disk. Safe to share between threads."""

    def __init__(self, index: Index, threads: int | None = None):
        self.index = index
        self.threads = threads or os.cpu_count() or 1
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def fingerprint(self) -> str:
        return self.index.manifest.fingerprint

    def __len__(self) -> int:
        return self.index.size

    def search(self, query: Query, k: int = 5) -> Hits:
        return self._run(compile_query(self.index, query), k)

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[Hits]:
        return self._in_threads(lambda at: self.search(queries[at], k), len(queries))

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        """The top k of query + r for every r, in one pass: see `kernels/refine.py`."""
        k = max(0, min(k, self.index.size))
        base = compile_query(self.index, query)
        if base.clauses == MAX_CLAUSES and any(map(text_of, refinements)):
            raise too_many_clauses(base.clauses + 1)
        if base.impossible or k == 0 or not refinements:
            return HitLists.empty(self.index, len(refinements))
        work = refining.plan(base, refinements)
        numbers, scores, counts = refining.run(self.index, base, work, k)
        for r in np.flatnonzero(counts < 0).tolist():
            hits = self.search(query.refine(refinements[r]), k)
            counts[r] = len(hits)
            numbers[r, : len(hits)], scores[r, : len(hits)] = hits.numbers, hits.scores
        return HitLists(self.index, numbers, scores, counts)

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> list[HitLists]:
        """`refine` for many sessions at once, one a thread."""
        states = list(zip(queries, refinements, strict=True))
        return self._in_threads(lambda at: self.refine(*states[at], k), len(states))

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return [self.index.passage(self._number(passage_id)) for passage_id in ids]

    def idf(self, field: str, term: str) -> float:
        if field not in FIELD_NUMBER:
            raise UnknownFieldError(f"unknown field {field!r}; expected contents or title")
        [number] = find_terms(self.index, [term]).tolist()
        frequency = 0 if number == NO_TERM else self.index.frequency(FIELD_NUMBER[field], number)
        return float(self.index.idf(FIELD_NUMBER[field], frequency))

    def analyze(self, text: str) -> list[str]:
        return analyze(text)

    def explain(self, query: Query, passage_id: str) -> Explanation:
        """The share of each clause in a passage's score."""
        return explain(compile_query(self.index, query), self._number(passage_id))

    def _number(self, passage_id: str) -> int:
        if (number := self.index.number(passage_id)) is None:
            raise UnknownPassageError(f"the index holds no passage {passage_id!r}")
        return number

    def _in_threads(self, work: Callable[[int], T], count: int) -> list[T]:
        """work(0), work(1), …, each thread with a run of them: handing over one by one costs more than a search."""
        cuts = [count * part // self.threads for part in range(self.threads + 1)]
        runs = [range(start, end) for start, end in pairwise(cuts) if start < end]
        if len(runs) < 2:
            return [work(at) for at in range(count)]
        done = self._pool().map(lambda run: [work(at) for at in run], runs)
        return [result for part in done for result in part]

    def _pool(self) -> ThreadPoolExecutor:
        """Threads that stay; a forked process has none of its parent's and makes its own."""
        if (pool := self._pools.get(os.getpid())) is None:
            pool = self._pools[os.getpid()] = ThreadPoolExecutor(self.threads)
        return pool

    def _run(self, query: Compiled, k: int) -> Hits:
        k = max(0, min(k, self.index.size))
        if query.impossible or k == 0 or not (query.must or query.should):
            return Hits(self.index, np.empty(0, np.int64), np.empty(0, np.float32))
        numbers, scores = np.empty(k, np.int64), np.empty(k, np.float32)
        arrays = query.lists.arrays()
        should = Rows.of(sorted(query.should, key=lambda clause: clause.most, reverse=True))
        must_not = Rows.of(query.must_not)
        excluded = must_not.start, must_not.end, must_not.extra
        optional = should.start, should.end, should.extra, should.weight, should.most
        if query.must:
            must = Rows.of(sorted(query.must, key=lambda clause: clause.postings.end - clause.postings.start))
            required = must.start, must.end, must.extra, must.weight
            count = kernels.search_all(*arrays, *required, *optional, *excluded, numbers, scores)
        else:
            windows = self.index.array("window_starts"), self.index.array("window_best"), self.index.size
            rows = query.lists.rows(should)
            count = kernels.search_any(*arrays, *windows, *optional, rows, *excluded, numbers, scores)
        return Hits(self.index, numbers[:count], scores[:count])


def open_index(path: Path | str, *, threads: int | None = None) -> EmbeddedEngine:
    """The engine over the index at `path`."""
    return EmbeddedEngine(Index.open(path), threads)
