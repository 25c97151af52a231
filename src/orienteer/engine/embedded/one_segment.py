"""The embedded engine over one segment: Lucene's results from memory-mapped arrays, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import refine as refining
from orienteer.engine.embedded import scan
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import (
    Compiled,
    Lists,
    Rows,
    compile_query,
    find_terms,
    text_of_term,
    too_many_clauses,
)
from orienteer.engine.embedded.explain import explain
from orienteer.engine.embedded.index import FIELD_NUMBER, NO_TERM, Index, saturations
from orienteer.engine.embedded.kernels import search as kernels
from orienteer.engine.embedded.kernels.nearest_terms import edit_distances
from orienteer.engine.embedded.kernels.score_all import score_all
from orienteer.engine.embedded.metadata_filter import EVERYTHING, Mask, check_fields
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.protocol import Explanation, MetadataColumn, Similarity, TermPostings
from orienteer.errors import UnknownFieldError, UnknownPassageError
from orienteer.query import Field, Query, Refinement, Where, parse_where
from orienteer.query.refinement import MAX_CLAUSES
from orienteer.query.where import Both

T = TypeVar("T")


class EmbeddedEngine:
    """`Engine` over an index on disk. Safe to share between threads.

    `allowed`: bool [passages], which of them may be results; empty: all. What a term weighs does not depend on it.
    """

    floor = 0.0  # a score that results of `search` have to reach: what is below is not wanted

    def __init__(
        self, index: Index, threads: int | None = None, *, allowed: Mask = EVERYTHING, where: Where | None = None
    ):
        self.index, self.allowed, self.where = index, allowed, where
        self.threads = threads or os.cpu_count() or 1
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def fingerprint(self) -> str:
        return filtered_fingerprint(self.index.manifest.fingerprint, self.where)

    def filtered(self, where: str | Where) -> EmbeddedEngine:
        """The same engine for the passages whose metadata passes the filter: see `query/where.py`."""
        where = both(self.where, parse_where(where) if isinstance(where, str) else where)
        check_fields(where, [self.index.metadata_filter])
        return EmbeddedEngine(self.index, self.threads, allowed=self.index.metadata_filter.mask(where), where=where)

    def metadata_fields(self) -> frozenset[str]:
        return self.index.metadata_filter.fields()

    def metadata_columns(self, fields: Sequence[str]) -> list[MetadataColumn]:
        return self.index.metadata_filter.columns(fields)

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
        return self.refine_planned(query, refining.plan(refinements), k)

    def refine_planned(
        self, query: Query, planned: refining.PlannedRefinements, k: int, floors: NDArray[np.float32] | None = None
    ) -> HitLists:
        """`refine`; with floors [refinements], hits below them may be missing."""
        k = max(0, min(k, self.index.size))
        base = self._compile(query)
        if base.clauses == MAX_CLAUSES and any(planned.texts):
            raise too_many_clauses(base.clauses + 1)
        if base.impossible or k == 0 or not len(planned):
            return HitLists.empty(self.index, len(planned))
        grouped = refining.group(base, planned)
        numbers, scores, counts = refining.run(self.index, base, grouped, k, self.allowed, floors)
        for r in np.flatnonzero(counts < 0).tolist():
            hits = self.search(query.refine(planned.refinements[r]), k)
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
        number = self._number(passage_id)
        explanation = explain(self._compile(query), number)
        if self.allowed.size and not self.allowed[number]:
            return replace(explanation, matches=False, score=0.0)
        return explanation

    def scores(self, query: Query) -> NDArray[np.float32]:
        """Every passage's score, by passage number; -inf where the query does not return it."""
        return self.scores_with(query, None)

    def scores_with(self, query: Query, similarity: Similarity | None) -> NDArray[np.float32]:
        """`scores` as an index built with other parameters of BM25 would give them."""
        compiled = self._compile(query)
        if compiled.impossible:
            return np.full(self.index.size, -np.inf, np.float32)
        scores = np.empty(self.index.size, np.float32)
        must, should, must_not = map(Rows.of, (compiled.must, compiled.should, compiled.must_not))
        documents, codes, extra_documents, extra_codes, saturation = compiled.lists.arrays()
        if similarity is not None:
            saturation = self._saturation(compiled.lists, similarity)
        score_all(
            documents, codes, extra_documents, extra_codes, saturation, must.start, must.end, must.extra, must.weight,
            should.start, should.end, should.extra, should.weight,
            must_not.start, must_not.end, must_not.extra, self.allowed, scores,
        )  # fmt: skip
        return scores

    def _saturation(self, lists: Lists, similarity: Similarity) -> NDArray[np.float32]:
        values = saturations(self._pairs(lists), self.index.field_counts, similarity)
        values.flags.writeable = False
        return values

    def _pairs(self, lists: Lists) -> NDArray[np.integer]:
        """[codes, 3]: what each code stands for, those of the query's own phrases after the index's."""
        pairs: NDArray[np.integer] = self.index.array("pairs").reshape(-1, 3)
        if not lists.length:
            return pairs
        return np.concatenate([pairs, np.array(lists.pairs()[len(pairs) :], np.int64).reshape(-1, 3)])

    def postings(self, terms: Sequence[tuple[Field, str]]) -> list[TermPostings]:
        """Each term's passages with its frequency and the norm of the field's length; several words are a phrase."""
        texts = [text_of_term(field, term) for field, term in terms]
        lists = Lists(self.index)
        known = lists.find(text for text in texts if text is not None)
        documents, codes, extra, extra_codes, _ = lists.arrays()
        pairs = (
            np.array(lists.pairs(), np.int64).reshape(-1, 3)
            if lists.length
            else self.index.array("pairs").reshape(-1, 3)
        )
        found = []
        for text in texts:
            if text is None or (own := known[text]) is None:
                found.append(TermPostings(0.0, documents[:0], np.empty(0, np.int64), np.empty(0, np.int64)))
                continue
            numbers, its_codes = (extra, extra_codes) if own.extra else (documents, codes)
            rows = pairs[its_codes[own.start : own.end]]
            found.append(TermPostings(float(own.idf), numbers[own.start : own.end], rows[:, 1], rows[:, 2]))
        return found

    def average_length(self, field: Field) -> float:
        """Terms of the field, over the passages that have it."""
        passages, length = self.index.field_counts[FIELD_NUMBER[field]].tolist()
        return length / passages if passages else 1.0

    def matches(self, terms: Sequence[tuple[Field, str]]) -> list[NDArray[np.uint32]]:
        """The numbers of the passages that hold each term, rising; views of the index where it is one word."""
        texts = [text_of_term(field, term) for field, term in terms]
        lists = Lists(self.index)
        known = lists.find(text for text in texts if text is not None)
        documents, _, extra, _, _ = lists.arrays()
        found = []
        for text in texts:
            postings = known[text] if text is not None else None
            start, end = (postings.start, postings.end) if postings else (0, 0)
            found.append((extra if postings and postings.extra else documents)[start:end])
        return found

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

    def terms_of_passages(self, ids: Sequence[str]) -> list[NDArray[np.int64]]:
        known = [(at, number) for at, name in enumerate(ids) if (number := self.index.number(name)) is not None]
        found = [np.empty(0, np.int64)] * len(ids)
        for (at, _), stream in zip(known, self.index.streams_of([number for _, number in known]), strict=True):
            found[at] = stream[stream >= 0]
        return found

    def term_texts(self, numbers: NDArray[np.int64]) -> list[str]:
        return self.index.terms_at(numbers)

    def term_idfs(self, numbers: NDArray[np.int64]) -> list[float]:
        frequencies: list[int] = self.index.frequencies_of(0, numbers)
        return [float(self.index.idf(0, frequency)) for frequency in frequencies]

    def nearest_terms(self, word: str, count: int) -> list[str]:
        """One edit away for a word of up to seven letters, two for a longer one; none for up to three letters."""
        near = near_terms(self.index, word)
        return sorted(near, key=lambda term: (near[term], -self.index.frequency(0, self.term_numbers([term])[0])))[
            :count
        ]

    def term_idf(self, number: int) -> float:
        return float(self.index.idf(0, self.index.frequency(0, number)))

    def term_probability(self, number: int) -> float:
        return self.index.occurrences(number) / int(self.index.field_counts[0, 1])

    def _compile(self, query: Query) -> Compiled:
        return compile_query(query, Lists(self.index))

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
        if scan.is_time():
            return Hits(self.index, *scan.scan(query, k, self.allowed))
        numbers, scores = np.empty(k, np.int64), np.empty(k, np.float32)
        count = (self._search_all if query.must else self._search_any)(query, numbers, scores)
        return Hits(self.index, numbers[:count], scores[:count])

    def _search_all(self, query: Compiled, numbers: NDArray[np.int64], scores: NDArray[np.float32]) -> int:
        should = sorted(query.should, key=attrgetter("most"), reverse=True)
        must = Rows.of(sorted(query.must, key=lambda clause: clause.postings.end - clause.postings.start))
        most = np.array([clause.most for clause in should], np.float64)
        must_not = Rows.of(query.must_not)
        return kernels.search_all(  # type: ignore[no-any-return]
            *query.lists.arrays(), must.start, must.end, must.extra, must.weight, *Rows.of(should), most,
            must_not.start, must_not.end, must_not.extra, self.allowed, self.floor, numbers, scores,
        )  # fmt: skip

    def _search_any(self, query: Compiled, numbers: NDArray[np.int64], scores: NDArray[np.float32]) -> int:
        index = self.index
        should = sorted(query.should, key=lambda clause: (clause.postings.row >= 0, -clause.weight))
        arrays = query.lists.arrays()
        bounds = index.block_bounds
        for clause in should:
            if (own := clause.postings).row >= 0:
                bounds.fill(own.row, own.start, own.end, *arrays[:2])
        must_not = Rows.of(query.must_not)
        return kernels.search_any(  # type: ignore[no-any-return]
            *arrays, index.array("window_starts"), bounds.steps, index.size,
            *Rows.of(should), np.array([clause.postings.row for clause in should], np.int64),
            must_not.start, must_not.end, must_not.extra, self.allowed, self.floor, numbers, scores,
        )  # fmt: skip


def filtered_fingerprint(fingerprint: str, where: Where | None) -> str:
    """The fingerprint of an engine with a filter: its results are not those of the whole index."""
    return fingerprint if where is None else f"{fingerprint}-{blake2b(repr(where).encode(), digest_size=8).hexdigest()}"


def both(first: Where | None, second: Where) -> Where:
    return second if first is None else Both((first, second))


def near_terms(index: Index, word: str) -> dict[str, int]:
    """The index's terms that are one or two edits away from a word, with their distances."""
    most = 0 if len(word) < 4 else 1 if len(word) < 8 else 2
    if not most or not index.terms:
        return {}
    distances = np.empty(index.terms, np.uint8)
    letters = np.frombuffer(word.encode(), np.uint8)
    edit_distances(index.array("terms"), index.array("term_ends"), letters, most, distances)
    return {index.term(number): int(distances[number]) for number in np.flatnonzero(distances <= most).tolist()}
