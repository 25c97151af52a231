"""A segment: one index, some of whose passages may be deleted, that scores by the statistics of a larger collection.

An index of a base and a delta (`segmented_index.py`) and a shard (`engine/sharded`) are made of segments. Statistics
are summed over the segments without the deleted passages before anything is scored, and each segment scores by these
sums: so the results are those of one index of the remaining passages, in their order, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import (
    Compiled,
    Lists,
    compile_query,
    text_of,
    too_many_clauses,
)
from orienteer.engine.embedded.index import FIELD_COUNT, FIELD_NUMBER, Index, saturations
from orienteer.engine.embedded.kernels.refine import merge_lists
from orienteer.engine.embedded.metadata_filter import EVERYTHING, Mask, frozen
from orienteer.engine.embedded.one_segment import EmbeddedEngine
from orienteer.engine.embedded.refine import PlannedRefinements
from orienteer.engine.hits import HitLists, Hits
from orienteer.query import Query, Where
from orienteer.query.refinement import MAX_CLAUSES

TermKey: TypeAlias = tuple[int, str]  # a field's number and an index term
_FEW_LISTS = 64  # that NumPy merges as fast as a kernel, which a short command would have to load
_MASKS = 16  # of filters that are kept


class SegmentHits(NamedTuple):
    """Result lists of one part of a collection; numbers are the part's own."""

    numbers: NDArray[np.int64]  # [lists, k]
    scores: NDArray[np.float32]  # [lists, k]; -inf where a list has ended


class Segment:
    """One index, some of whose passages may be deleted. `size` and all statistics are those of the others."""

    def __init__(self, index: Index, deleted: NDArray[np.int64]):
        self.index = index
        self.deleted = np.asarray(deleted, np.int64)
        self.size = index.size - self.deleted.size
        self.alive = EVERYTHING
        if self.deleted.size:
            alive = np.ones(index.size, np.bool_)
            alive[self.deleted] = False
            self.alive = frozen(alive)
        self._deleted_terms = _DeletedTerms.of(index, self.deleted)
        self.field_counts = index.field_counts - self._deleted_terms.field_counts  # [2, 2], as in `Index`
        self._masks: dict[Where, Mask] = {}
        self._totals = self.field_counts

    def set_totals(self, totals: NDArray[np.int64]) -> None:
        """Score from now on with the field statistics of a larger collection [2, 2]."""
        self._totals = totals
        self.__dict__.pop("scoring", None)

    @cached_property
    def scoring(self) -> Index:
        """The index, by the statistics that it is to score with."""
        return with_totals(self.index, self._totals)

    def frequency(self, field: int, term: int) -> int:
        gone = self._deleted_terms.frequencies.get(field * self.index.terms + term, 0)
        return self.index.frequency(field, term) - gone

    def occurrences(self, term: int) -> int:
        return self.index.occurrences(term) - self._deleted_terms.occurrences.get(term, 0)

    def vanished_terms(self) -> list[int]:
        """The terms that only deleted passages have."""
        lists = self._deleted_terms.frequencies
        return sorted(term for term in lists if term < self.index.terms and self.frequency(0, term) == 0)

    def mask(self, where: Where | None) -> Mask:
        """Which passages may be results, by their numbers in the index; empty: all."""
        if where is None:
            return self.alive
        if not self.alive.size:
            return self.index.metadata_filter.mask(where)
        if where not in self._masks:
            if len(self._masks) >= _MASKS:
                self._masks = {}  # another thread may still look into the old one
            self._masks[where] = frozen(self.index.metadata_filter.mask(where) & self.alive)
        return self._masks[where]

    def numbered(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """From numbers in the index to those among the passages that are not deleted."""
        return numbers - np.searchsorted(self.deleted, numbers) if self.deleted.size else numbers

    def stored(self, number: int) -> int:
        """The other way round."""
        if not self.deleted.size:
            return number
        return number + int(np.searchsorted(self._before, number, side="right"))

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        """How many passages that are not deleted come before each deleted one."""
        return self.deleted - np.arange(self.deleted.size)

    def number(self, passage_id: str) -> int | None:
        """The passage's number among those that are not deleted."""
        if (stored := self.index.number(passage_id)) is None or (self.alive.size and not self.alive[stored]):
            return None
        return stored - int(np.searchsorted(self.deleted, stored))

    @cached_property
    def living(self) -> NDArray[np.int64]:
        """The numbers in the index of all passages that are not deleted."""
        return np.flatnonzero(self.alive) if self.alive.size else np.arange(self.index.size)

    def hits(
        self, query: Query, k: int, frequencies: Mapping[TermKey, int], where: Where | None, floor: float = 0.0
    ) -> SegmentHits:
        """[1, k]: the best k; of those below `floor` some or all may be missing."""
        engine = SegmentEngine(self.scoring, frequencies, self.mask(where))
        engine.floor = floor
        return self._hits([engine.search(query, k)], k)

    def refined(
        self, query: Query, planned: PlannedRefinements, k: int, frequencies: Mapping[TermKey, int],
        where: Where | None, floors: NDArray[np.float32] | None = None,
    ) -> SegmentHits:  # fmt: skip
        """[refinements, k]: the best k of each; of those below `floors` [refinements] some or all may be missing."""
        engine = SegmentEngine(self.scoring, frequencies, self.mask(where))
        return self._hits(engine.refine_planned(query, planned, k, floors), k)

    def _hits(self, lists: Sequence[Hits] | HitLists, k: int) -> SegmentHits:
        numbers = np.zeros((len(lists), k), np.int64)
        scores = np.full((len(lists), k), -np.inf, np.float32)
        if isinstance(lists, HitLists):
            width = lists.numbers.shape[1]
            here = np.arange(width) < lists.counts[:, None]
            np.copyto(numbers[:, :width], lists.numbers, where=here)
            np.copyto(scores[:, :width], lists.scores, where=here)
        else:
            for row, hits in enumerate(lists):
                numbers[row, : len(hits)], scores[row, : len(hits)] = hits.numbers, hits.scores
        return SegmentHits(self.numbered(numbers), scores)


@dataclass(frozen=True)
class _DeletedTerms:
    """What deleted passages had: to be taken off the statistics of their index."""

    field_counts: NDArray[np.int64]  # [2, 2]
    frequencies: dict[int, int]  # list number → passages
    occurrences: dict[int, int]  # term → how often in `contents`

    @classmethod
    def of(cls, index: Index, deleted: NDArray[np.int64]) -> _DeletedTerms:
        stream, stops = index.streams(deleted) if deleted.size else (deleted, deleted)
        lengths = np.diff(stops, prepend=0)
        within = np.arange(stream.size) - np.repeat(stops - lengths, lengths)
        stream = stream.astype(np.int64)
        row = np.repeat(np.arange(deleted.size), lengths)
        in_title = within < np.repeat(index.array("title_positions")[deleted], lengths)
        counts = np.zeros((FIELD_COUNT, 2), np.int64)
        frequencies: dict[int, int] = {}
        for field, chosen in enumerate((stream >= 0, (stream >= 0) & in_title)):
            terms, rows = stream[chosen], row[chosen]
            counts[field] = np.unique(rows).size, terms.size
            pairs = np.unique(rows << 32 | terms) & 0xFFFFFFFF
            numbers, passages = np.unique(pairs, return_counts=True)
            frequencies.update(zip((field * index.terms + numbers).tolist(), passages.tolist(), strict=True))
        terms, often = np.unique(stream[stream >= 0], return_counts=True)
        return cls(counts, frequencies, dict(zip(terms.tolist(), often.tolist(), strict=True)))


def with_totals(index: Index, totals: NDArray[np.int64]) -> Index:
    """The index with the field statistics of a larger collection, of which it is a part.

    The bounds in an index are codes, ordered by the score they give; with another average length that order is a little
    different. So a bound becomes that code, of those up to it, which gives the highest score now.
    """
    arrays = dict(index.arrays)
    pairs = arrays["pairs"].reshape(-1, 3)
    highest = np.arange(len(pairs))
    now = saturations(pairs, totals)
    for field in FIELD_NUMBER.values():
        codes = np.flatnonzero(pairs[:, 0] == field)
        leads = now[codes] == np.maximum.accumulate(now[codes])
        highest[codes] = codes[np.maximum.accumulate(np.where(leads, np.arange(codes.size), 0))]
    if highest.size:
        arrays["best_codes"] = _frozen(highest[arrays["best_codes"]], arrays["best_codes"])
    joined = Index(index.manifest, arrays, index.folder)
    joined.field_counts = totals
    joined.metadata_filter = index.metadata_filter
    joined._checked = index._checked
    return joined


def _frozen(values: NDArray[np.int64], like: NDArray[Any]) -> NDArray[Any]:
    values = values.astype(like.dtype)
    values.flags.writeable = False  # as mapped files are: a kernel compiled for one fits the other
    return values


class _GlobalLists(Lists):
    """A query's postings in one segment, with the idf of the whole collection.

    Of one collection: `Segment.scoring` remembers what was looked up.
    """

    def __init__(self, index: Index, frequencies: Mapping[TermKey, int]):
        super().__init__(index)
        self._frequencies = frequencies

    def idf(self, field: int, term: str, frequency: int) -> np.float32:
        return self.index.idf(field, self._frequencies[field, term])


class SegmentEngine(EmbeddedEngine):
    """The embedded engine over one segment, for queries of terms whose collection frequencies are given."""

    def __init__(self, index: Index, frequencies: Mapping[TermKey, int], allowed: Mask = EVERYTHING):
        super().__init__(index, threads=1, allowed=allowed)
        self._frequencies = frequencies

    def _compile(self, query: Query) -> Compiled:
        return compile_query(query, _GlobalLists(self.index, self._frequencies))


def merged(parts: Sequence[SegmentHits], starts: NDArray[np.int64], k: int) -> SegmentHits:
    """The best k of all parts' lists; equal scores in the order of the parts, and of the passages in them.

    parts    each part's hits, by its own numbers
    starts   [parts + 1] the number of each part's first passage in the whole
    """
    if len(parts[0].scores) > _FEW_LISTS:
        scores = np.stack([part.scores for part in parts])
        found = SegmentHits(np.empty(scores.shape[1:], np.int64), np.empty(scores.shape[1:], np.float32))
        merge_lists(np.stack([part.numbers for part in parts]), scores, starts[:-1], k, *found)
        return found
    numbers = np.concatenate([part.numbers + start for part, start in zip(parts, starts[:-1], strict=True)], axis=1)
    scores = np.concatenate([part.scores for part in parts], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return SegmentHits(np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1))


def terms_of(query: Query, planned: PlannedRefinements | None = None) -> list[TermKey]:
    """Every term whose frequency the query needs, alone and with each of the refinements."""
    terms = analyze(query.question)
    made = [text for refinement in query.refinements if (text := text_of(refinement)) is not None]
    more = [text for text in planned.texts if text is not None] if planned is not None else []
    if (clauses := len(terms) + len(made) + bool(more)) > MAX_CLAUSES:
        raise too_many_clauses(clauses)
    return [(0, term) for term in terms] + [(text.field, term) for text in made + more for term in text.terms]
