"""The engine of an index in segments: searches each, with the statistics of all, and merges the hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.clauses import (
    Clause,
    Compiled,
    FieldTerms,
    query_texts,
    text_of_term,
)
from orienteer.engine.embedded.explain import explain
from orienteer.engine.embedded.index import FIELD_NUMBER
from orienteer.engine.embedded.metadata_filter import EVERYTHING, check_fields, frozen
from orienteer.engine.embedded.one_segment import EmbeddedEngine, both, near_terms
from orienteer.engine.embedded.refine import plan
from orienteer.engine.embedded.segmented_index import SegmentedIndex
from orienteer.engine.embedded.segments import Segment, SegmentEngine, TermKey, terms_of
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.protocol import ClauseScore, Explanation, MetadataColumn, Similarity, TermPostings
from orienteer.errors import UnknownFieldError
from orienteer.query import FIELDS, Field, Query, Refinement, Where, parse_where

_REMEMBERED = 1 << 20  # terms whose frequency the engine keeps
_OCCURS: tuple[tuple[str, Literal["must", "should", "must_not"]], ...] = (
    ("+", "must"), ("should", "should"), ("-", "must_not"),
)  # fmt: skip


class SegmentedEngine(EmbeddedEngine):
    """The embedded engine over an index in segments."""

    index: SegmentedIndex

    def __init__(self, index: SegmentedIndex, threads: int | None = None, *, where: Where | None = None):
        allowed = EVERYTHING
        if where is not None:
            masks = [segment.index.metadata_filter.mask(where)[segment.living] for segment in index.segments]
            allowed = frozen(np.concatenate(masks))
        super().__init__(index, threads, allowed=allowed, where=where)
        self._frequencies: dict[TermKey, int] = {}

    def filtered(self, where: str | Where) -> SegmentedEngine:
        where = both(self.where, parse_where(where) if isinstance(where, str) else where)
        check_fields(where, [segment.index.metadata_filter for segment in self.index.segments])
        return SegmentedEngine(self.index, self.threads, where=where)

    def metadata_fields(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.index.metadata_filter.fields() for each in self.index.segments))

    def metadata_columns(self, fields: Sequence[str]) -> list[MetadataColumn]:
        """The living passages of all segments; a value of two segments stands in `values` twice."""
        by_segment = [segment.index.metadata_filter.columns(fields) for segment in self.index.segments]
        columns = []
        for parts in zip(*by_segment, strict=True):
            values: list[Any] = []
            numbers = []
            for part, segment in zip(parts, self.index.segments, strict=True):
                numbers.append(part.numbers[segment.living] + np.int32(len(values)))
                values += part.values
            columns.append(MetadataColumn(values, np.concatenate(numbers)))
        return columns

    def search(self, query: Query, k: int = 5) -> Hits:
        k = max(0, min(k, self.index.size))
        found = self.index.hits(query, k, self._document_frequencies(terms_of(query)), self.where)
        count = int((found.scores[0] > -np.inf).sum())
        return Hits(self.index, found.numbers[0, :count], found.scores[0, :count])

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        k = max(0, min(k, self.index.size))
        planned = plan(refinements)
        frequencies = self._document_frequencies(terms_of(query, planned))
        if not refinements:
            return HitLists.empty(self.index, 0)
        found = self.index.refined(query, planned, k, frequencies, self.where)
        return HitLists(self.index, found.numbers, found.scores, (found.scores > -np.inf).sum(axis=1))

    def idf(self, field: str, term: str) -> float:
        if field not in FIELD_NUMBER:
            raise UnknownFieldError(f"unknown field {field!r}; expected contents or title")
        key = FIELD_NUMBER[field], term
        return float(self.index.idf(key[0], self._document_frequencies([key])[key]))

    def scores_with(self, query: Query, similarity: Similarity | None) -> NDArray[np.float32]:
        frequencies = self._document_frequencies(terms_of(query))
        parts = [
            SegmentEngine(segment.scoring, frequencies, segment.mask(self.where)).scores_with(query, similarity)[
                segment.living
            ]
            for segment in self.index.segments
        ]
        return np.concatenate(parts)

    def postings(self, terms: Sequence[tuple[Field, str]]) -> list[TermPostings]:
        texts = [text_of_term(field, term) for field, term in terms]
        words = [[(text.field, term) for term in text.terms] if text is not None else [] for text in texts]
        frequencies = self._document_frequencies([word for each in words for word in each])
        idfs = [
            float(np.float32(sum(float(self.index.idf(field, frequencies[field, term])) for field, term in each)))
            for each in words
        ]
        parts = [self._living_postings(segment, terms) for segment in self.index.segments]
        found = []
        for idf, of_term in zip(idfs, zip(*parts, strict=True), strict=True):
            passages, counts, norms = (
                np.concatenate(each) for each in zip(*(part[1:] for part in of_term), strict=True)
            )
            found.append(TermPostings(idf if passages.size else 0.0, passages, counts, norms))
        return found

    def _living_postings(self, segment: Segment, terms: Sequence[tuple[Field, str]]) -> list[TermPostings]:
        """Those of passages that are not deleted, by their numbers in the whole."""
        found = []
        for idf, passages, frequencies, norms in EmbeddedEngine(segment.index, threads=1).postings(terms):
            alive = segment.alive[passages] if segment.alive.size else slice(None)
            found.append(TermPostings(idf, self._in_whole(segment, passages[alive]), frequencies[alive], norms[alive]))
        return found

    def matches(self, terms: Sequence[tuple[Field, str]]) -> list[NDArray[np.uint32]]:
        parts = []
        for segment in self.index.segments:
            all_of_them = EmbeddedEngine(segment.index, threads=1).matches(terms)
            living = [each[segment.alive[each]] if segment.alive.size else each for each in all_of_them]
            parts.append([self._in_whole(segment, each) for each in living])
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    def _in_whole(self, segment: Segment, numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """From numbers of living passages in the segment's index to those in the whole."""
        start = int(self.index.starts[self.index.segments.index(segment)])
        return (segment.numbered(numbers.astype(np.int64)) + start).astype(np.uint32)

    def nearest_terms(self, word: str, count: int) -> list[str]:
        near = {t: d for segment in self.index.segments for t, d in near_terms(segment.index, word).items()}
        frequency = {term: self._document_frequencies([(0, term)])[0, term] for term in near}
        living = [term for term in near if frequency[term]]
        return sorted(living, key=lambda term: (near[term], -frequency[term]))[:count]

    def explain(self, query: Query, passage_id: str) -> Explanation:
        """The share of each clause, also of those whose terms only the other segment has."""
        number = self._number(passage_id)
        home, stored = self.index.place(number)
        frequencies = self._document_frequencies(terms_of(query))
        compiled = [
            (segment, SegmentEngine(segment.scoring, frequencies)._compile(query)) for segment in self.index.segments
        ]
        [own] = [each for segment, each in compiled if segment is home]
        names = [
            (sign, clause.text)
            for sign, clauses in (("+", own.must), ("should", own.should), ("-", own.must_not))
            for clause in clauses
        ]
        given = dict(zip(names, explain(own, stored).shares, strict=True))
        shares: list[ClauseScore] = []
        known = {"+": 0, "should": 0, "-": 0}
        texts, _ = query_texts(query)
        for sign, occur in _OCCURS:
            for text in texts[sign]:
                if clause := next(filter(None, (_living_clause(*each, sign, text) for each in compiled)), None):
                    known[sign] += 1
                    field, words, idf = FIELDS[text.field], " ".join(text.terms), float(clause.postings.idf)
                    absent = ClauseScore(occur, field, words, clause.boost, idf, 0, 0.0)
                    shares.append(given.get((sign, text), absent))
        must = [share for share in shares if share.occur == "must"]
        matches = (
            known["+"] == len(texts["+"])
            and all(share.frequency for share in must)
            and not any(share.frequency for share in shares if share.occur == "must_not")
            and bool(must or any(share.frequency for share in shares if share.occur == "should"))
            and not (self.allowed.size and not self.allowed[number])
        )
        total = np.float32(sum(share.score for share in must)) + np.float32(
            sum(share.score for share in shares if share.occur == "should")
        )
        return Explanation(matches, float(total) if matches else 0.0, tuple(shares))

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        numbers: list[int] = self.index.term_numbers(terms).tolist()
        return numbers

    def _document_frequencies(self, terms: Iterable[TermKey]) -> dict[TermKey, int]:
        wanted = list(dict.fromkeys(terms))
        if len(self._frequencies) > _REMEMBERED:
            self._frequencies = {}
        known = self._frequencies
        if new := [term for term in wanted if term not in known]:
            known.update(zip(new, self.index.frequencies(new).tolist(), strict=True))
        return {term: known[term] for term in wanted}


def _living_clause(segment: Segment, query: Compiled, sign: str, text: FieldTerms) -> Clause | None:
    """The segment's clause of this text, if a passage that is not deleted has it."""
    clauses = {"+": query.must, "should": query.should, "-": query.must_not}[sign]
    for clause in clauses:
        if clause.text == text:
            arrays = query.lists.arrays()
            documents = (arrays[2] if clause.postings.extra else arrays[0])[clause.postings.start : clause.postings.end]
            return clause if not segment.alive.size or segment.alive[documents].any() else None
    return None
