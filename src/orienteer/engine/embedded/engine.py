"""The embedded engine: Lucene's results from memory-mapped arrays, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import refine as refining
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import Compiled, Rows, compile_query, find_terms, text_of, too_many_clauses
from orienteer.engine.embedded.explain import explain
from orienteer.engine.embedded.index import FIELD_NUMBER, NO_TERM, Index
from orienteer.engine.embedded.kernels import search as kernels
from orienteer.engine.embedded.kernels.nearest_terms import edit_distances
from orienteer.engine.embedded.kernels.score_all import score_all
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.protocol import Explanation
from orienteer.errors import UnknownFieldError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

T = TypeVar("T")


class EmbeddedEngine:
    """`Engine` over an index on disk. Safe to share between threads."""

    def __init__(self, index: Index, threads: int | None = None):
        self.index = index
        self.threads = threads or os.cpu_count() or 1
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def fingerprint(self) -> str:
        return self.index.manifest.fingerprint

    @property
    def folder(self) -> Path | None:
        return self.index.folder

    def __len__(self) -> int:
        return self.index.size

    def search(self, query: Query, k: int = 5) -> Hits:
        return self._run(self._compile(query), k)

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[Hits]:
        return self._in_threads(lambda at: self.search(queries[at], k), len(queries))

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        """The top k of query + r for every r, in one pass: see `kernels/refine.py`."""
        k = max(0, min(k, self.index.size))
        base = self._compile(query)
        if base.clauses == MAX_CLAUSES and any(map(text_of, refinements)):
            raise too_many_clauses(base.clauses + 1)
        if base.impossible or k == 0 or not refinements:
            return HitLists.empty(self.index, len(refinements))
        grouped = refining.group(base, refinements)
        numbers, scores, counts = refining.run(self.index, base, grouped, k)
        for r in np.flatnonzero(counts < 0).tolist():
            hits = self.search(query.refine(refinements[r]), k)
            counts[r] = len(hits)
            numbers[r, : len(hits)], scores[r, : len(hits)] = hits.numbers, hits.scores
        return HitLists(self.index, numbers, scores, counts)

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> list[HitLists]:
        """`refine` for many queries, in parallel threads."""
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
        return explain(self._compile(query), self._number(passage_id))

    def scores(self, query: Query) -> NDArray[np.float32]:
        """Every passage's score, by passage number; -inf where the query does not return it."""
        compiled = self._compile(query)
        if compiled.impossible:
            return np.full(self.index.size, -np.inf, np.float32)
        scores = np.empty(self.index.size, np.float32)
        must, should, must_not = map(Rows.of, (compiled.must, compiled.should, compiled.must_not))
        score_all(
            *compiled.lists.arrays(), must.start, must.end, must.extra, must.weight,
            should.start, should.end, should.extra, should.weight,
            must_not.start, must_not.end, must_not.extra, scores,
        )  # fmt: skip
        return scores

    def number_of(self, passage_id: str) -> int:
        return self._number(passage_id)

    def id_at(self, number: int) -> str:
        return self.index.id(number)

    def passage_at(self, number: int) -> Passage:
        return self.index.passage(number)

    @property
    def passages_fingerprint(self) -> str:
        return self.index.passages_fingerprint

    @property
    def vocabulary_size(self) -> int:
        return self.index.terms

    def term(self, number: int) -> str:
        return self.index.term(number)

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        numbers: list[int] = find_terms(self.index, list(terms)).tolist() if terms else []
        return numbers

    def passage_terms(self, passage_id: str) -> NDArray[np.int64]:
        if (number := self.index.number(passage_id)) is None:
            return np.empty(0, np.int64)
        stream = self.index.stream(number)
        return stream[stream >= 0].astype(np.int64)  # without the positions of stop words

    def nearest_terms(self, word: str, count: int) -> list[str]:
        """One edit away for a word of up to seven letters, two for a longer one; none for up to three letters."""
        letters = word.encode()
        most = 0 if len(word) < 4 else 1 if len(word) < 8 else 2
        if not most or not self.index.terms:
            return []
        distances = np.empty(self.index.terms, np.uint8)
        edit_distances(
            self.index.array("terms"), self.index.array("term_ends"), np.frombuffer(letters, np.uint8), most, distances
        )
        near = np.flatnonzero(distances <= most).tolist()
        near.sort(key=lambda number: (distances[number], -self.index.frequency(0, number)))
        return [self.index.term(number) for number in near[:count]]

    def term_idf(self, number: int) -> float:
        return float(self.index.idf(0, self.index.frequency(0, number)))

    def term_probability(self, number: int) -> float:
        return self.index.occurrences(number) / int(self.index.field_counts[0, 1])

    def _compile(self, query: Query) -> Compiled:
        return compile_query(self.index, query)

    def _number(self, passage_id: str) -> int:
        if (number := self.index.number(passage_id)) is None:
            raise UnknownPassageError(f"the index holds no passage {passage_id!r}")
        return number

    def _in_threads(self, work: Callable[[int], T], count: int) -> list[T]:
        """work(0), work(1), …, a range per thread: submitting one by one costs more than a search."""
        cuts = [count * part // self.threads for part in range(self.threads + 1)]
        runs = [range(start, end) for start, end in pairwise(cuts) if start < end]
        if len(runs) < 2:
            return [work(at) for at in range(count)]
        done = self._pool().map(lambda run: [work(at) for at in run], runs)
        return [result for part in done for result in part]

    def _pool(self) -> ThreadPoolExecutor:
        """Kept between calls; a forked process has none of its parent's threads and makes its own."""
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
