"""An index in segments: a base, and a small delta with what was added since; what was deleted is only marked.

A commit that inverts 900,000 passages again for one new file takes most of a minute; one of a delta takes as long as
the delta is large. Passages and terms have the numbers that one index of the remaining passages would give them.
`update_index` decides when both become one index again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded.clauses import find_terms
from orienteer.engine.embedded.index import NO_TERM, Index, open_parts
from orienteer.engine.embedded.refine import PlannedRefinements
from orienteer.engine.embedded.segments import Segment, SegmentHits, TermKey, merged
from orienteer.engine.embedded.store import Manifest
from orienteer.engine.embedded.stored_text import passages_digest
from orienteer.query import Query, Where


class SegmentedIndex(Index):
    """An index of one segment or two, with the look-ups of one: passages and terms are numbered as in a fresh build."""

    def __init__(self, manifest: Manifest, segments: Sequence[Segment], folder: Path | None):
        self.manifest, self.folder, self.segments = manifest, folder, list(segments)
        self.arrays = {}
        self.starts = np.cumsum([0, *(segment.size for segment in segments)])  # [segments + 1]
        self.size = int(self.starts[-1])
        self._idf: dict[tuple[int, int], np.float32] = {}
        self.set_totals(self.own_field_counts)

    @property
    def own_field_counts(self) -> NDArray[np.int64]:
        """[2, 2]: passages that have the field, terms in it, of this index alone."""
        return np.asarray(np.sum([segment.field_counts for segment in self.segments], axis=0), np.int64)

    def set_totals(self, totals: NDArray[np.int64]) -> None:
        """Score from now on with the field statistics of a larger collection [2, 2]."""
        self.field_counts = totals
        for segment in self.segments:
            segment.set_totals(totals)

    def frequencies(self, words: Sequence[TermKey]) -> NDArray[np.int64]:
        """In how many passages each word stands."""
        counts = np.zeros(len(words), np.int64)
        for segment in self.segments:
            numbers = find_terms(segment.index, [term for _, term in words]).tolist()
            counts += [
                segment.frequency(field, number) if number != NO_TERM else 0
                for (field, _), number in zip(words, numbers, strict=True)
            ]
        return counts

    def hits(
        self, query: Query, k: int, frequencies: Mapping[TermKey, int], where: Where | None, floor: float = 0.0
    ) -> SegmentHits:
        """[1, k]: the best k; `frequencies` are those of the whole collection.

        Of the hits below `floor`, the k-th score of others, some or all may be missing. Each segment starts with the
        k-th score of those before it.
        """
        parts = []
        for segment in self.segments:
            parts.append(segment.hits(query, k, frequencies, where, floor))
            if k:
                floor = max(floor, float(parts[-1].scores[0, -1]))
        return self._merged(parts, k)

    def refined(
        self, query: Query, planned: PlannedRefinements, k: int, frequencies: Mapping[TermKey, int],
        where: Where | None, floors: NDArray[np.float32] | None = None,
    ) -> SegmentHits:  # fmt: skip
        """[refinements, k]: the best k of query + r for every r.

        Of those below `floors` [refinements], the k-th scores of others, some or all may be missing; the floors become
        the segments' own k-th scores where these are higher.
        """
        floors = np.full(len(planned), -np.inf, np.float32) if floors is None else floors
        parts = []
        for segment in self.segments:
            parts.append(segment.refined(query, planned, k, frequencies, where, floors))
            if k:
                np.maximum(floors, parts[-1].scores[:, -1], out=floors)
        return self._merged(parts, k)

    def _merged(self, parts: list[SegmentHits], k: int) -> SegmentHits:
        return parts[0] if len(parts) == 1 else merged(parts, self.starts, k)

    def place(self, number: int) -> tuple[Segment, int]:
        """The segment that holds the passage, and its number in that segment's index."""
        at = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.segments[at], self.segments[at].stored(number - int(self.starts[at]))

    def number(self, passage_id: str) -> int | None:
        for start, segment in zip(self.starts.tolist(), self.segments, strict=False):
            if (number := segment.number(passage_id)) is not None:
                return int(start) + number
        return None

    def id(self, number: int) -> str:
        segment, stored = self.place(number)
        return segment.index.id(stored)

    def passage(self, number: int) -> Passage:
        segment, stored = self.place(number)
        return segment.index.passage(stored)

    def metadata(self, number: int) -> dict[str, Any]:
        segment, stored = self.place(number)
        return segment.index.metadata(stored)

    @property
    def has_metadata(self) -> bool:
        return any(segment.index.has_metadata for segment in self.segments)

    def passages_of(self, files: Collection[str] | None = None) -> list[str]:
        """The ids of all passages of these documents, by the `file` of their metadata; of all documents for None."""
        found = []
        for segment in self.segments:
            if segment.index.has_metadata:
                column = segment.index.metadata_filter.columns(["file"])[0]
                wanted = [isinstance(each, str) and (files is None or each in files) for each in column.values]
                held = np.array(wanted, np.bool_)[column.numbers]
                held &= segment.alive if segment.alive.size else np.True_
                found += [segment.index.id(number) for number in np.flatnonzero(held).tolist()]
        return found

    @cached_property
    def sources(self) -> bytes:
        """The state of `orienteer sync`; empty where the index follows no folder."""
        found = self.segments[-1].index.arrays.get("sources")
        return b"" if found is None else found.tobytes()

    # Terms

    @cached_property
    def _vocabulary(self) -> _Vocabulary:
        return _Vocabulary.of(self.segments)

    @property
    def terms(self) -> int:  # type: ignore[override]
        return self._vocabulary.source.size

    def term(self, number: int) -> str:
        source = int(self._vocabulary.source[number])
        return self.segments[0].index.term(source) if source >= 0 else self.segments[1].index.term(~source)

    def term_numbers(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """NO_TERM where no passage has it."""
        numbers = np.full(len(terms), NO_TERM, np.int64)
        for segment, own in zip(self.segments, self._vocabulary.numbers, strict=True):
            local = find_terms(segment.index, terms)
            known = (local != NO_TERM) & (numbers == NO_TERM)
            numbers[known] = own[local[known]]
        return numbers

    def frequency(self, field: int, term: int) -> int:
        return sum(segment.frequency(field, own) for segment, own in self._own_terms(term))

    def terms_at(self, numbers: NDArray[np.int64]) -> list[str]:
        return [self.term(number) for number in numbers.tolist()]

    def frequencies_of(self, field: int, numbers: NDArray[np.int64]) -> list[int]:
        return [self.frequency(field, number) for number in numbers.tolist()]

    def streams_of(self, numbers: Sequence[int]) -> list[NDArray[np.int64]]:
        return [self.stream(number) for number in numbers]

    def occurrences(self, term: int) -> int:
        return sum(segment.occurrences(own) for segment, own in self._own_terms(term))

    def _own_terms(self, term: int) -> list[tuple[Segment, int]]:
        """The term's number in each segment that has it."""
        text = self.term(term)
        numbers = [int(find_terms(segment.index, [text])[0]) for segment in self.segments]
        return [(segment, own) for segment, own in zip(self.segments, numbers, strict=True) if own != NO_TERM]

    def stream(self, number: int) -> NDArray[Any]:
        segment, stored = self.place(number)
        own = self._vocabulary.numbers[self.segments.index(segment)]
        stream = segment.index.stream(stored)
        return np.where(stream >= 0, own[stream], NO_TERM) if own.size else stream

    @cached_property
    def passages_fingerprint(self) -> str:
        """That of one index of the same passages; reads all stored text once where there are two segments."""
        if len(self.segments) == 1:
            return self.segments[0].index.passages_fingerprint
        return _passages_fingerprint(self.segments)


@dataclass(frozen=True)
class _Vocabulary:
    """The terms of two segments as those of one.

    numbers  for each segment the number of its terms in the whole, NO_TERM where only deleted passages have it
    source   int64 [terms]: the term's number in the base, or ~number in the delta
    """

    numbers: list[NDArray[np.int64]]
    source: NDArray[np.int64]

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> _Vocabulary:
        base = segments[0].index
        if len(segments) == 1:
            return cls([np.arange(base.terms)], np.arange(base.terms))
        delta = segments[1].index
        words = [delta.term(number) for number in range(delta.terms)]
        known = find_terms(base, words)
        gone = np.setdiff1d(np.array(segments[0].vanished_terms(), np.int64), known)
        new = np.flatnonzero(known == NO_TERM)
        bytes_of = _term_bytes(base)
        before = np.array([bisect_left(range(base.terms), words[at].encode(), key=bytes_of) for at in new], np.int64)
        own = np.arange(base.terms)
        own = own - np.searchsorted(gone, own) + np.searchsorted(before, own, side="right")
        added = before - np.searchsorted(gone, before) + np.arange(new.size)
        own[gone] = NO_TERM
        delta_numbers = np.empty(delta.terms, np.int64)
        delta_numbers[new] = added
        shared = np.flatnonzero(known != NO_TERM)
        delta_numbers[shared] = own[known[shared]]
        source = np.empty(base.terms - gone.size + new.size, np.int64)
        living = np.flatnonzero(own != NO_TERM)
        source[own[living]] = living
        source[added] = ~new
        return cls([own, delta_numbers], source)


def _term_bytes(index: Index) -> Any:
    ends, letters = index.array("term_ends"), index.array("terms")
    return lambda number: letters[ends[number] : ends[number + 1]].tobytes()


def _passages_fingerprint(segments: Sequence[Segment]) -> str:
    """That of one index of the segments' passages."""
    rows = [(segment.index, number) for segment in segments for number in segment.living.tolist()]
    sizes = np.array([[len(part) for part in index.text[number]] for index, number in rows], np.int64).reshape(-1, 2)
    ids = [index.id(number).encode() for index, number in rows]
    ends = np.cumsum(sizes, axis=None).reshape(-1, 2)
    texts = (part for index, number in rows for part in index.text[number])
    return passages_digest(ids, np.cumsum([0, *map(len, ids)], dtype=np.int64), texts, ends).hex()


def open_segments(
    path: Path | str, opened: tuple[Manifest, list[Index], NDArray[np.int64]] | None = None
) -> SegmentedIndex:
    """The index at `path`, in one segment or two; `opened` where its parts are open already."""
    manifest, parts, deleted = opened or open_parts(path)
    gone = [deleted, np.empty(0, np.int64)]
    return SegmentedIndex(manifest, [Segment(each, no) for each, no in zip(parts, gone, strict=False)], Path(path))
