"""An index in segments: a base, and a small delta with what was added since; what was deleted is only marked.

A commit that inverts 900,000 passages again for one new file takes most of a minute; one of a delta takes as long as
the delta is large. The results are those of one index of the remaining passages, in their order, to the bit: statistics
are summed over the segments without the deleted passages before anything is scored, and each segment scores by these
sums. Passages and terms have the numbers that one index would give them.

`update_index` decides when both become one index again. A shard (`engine/sharded`) is made of the same parts.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import (
    Clause,
    Compiled,
    FieldTerms,
    Lists,
    Postings,
    Rows,
    find_terms,
    query_texts,
    text_of,
    too_many_clauses,
)
from orienteer.engine.embedded.explain import explain
from orienteer.engine.embedded.index import FIELD_COUNT, FIELD_NUMBER, NO_TERM, Index, open_parts, saturations
from orienteer.engine.embedded.metadata_filter import EVERYTHING, Mask, check_fields, frozen
from orienteer.engine.embedded.one_segment import EmbeddedEngine, both, near_terms
from orienteer.engine.embedded.store import Manifest, _header
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.protocol import ClauseScore, Explanation, MetadataColumn, Similarity, TermPostings
from orienteer.errors import IndexVersionError, UnknownFieldError
from orienteer.query import FIELDS, Field, Query, Refinement, Where, parse_where
from orienteer.query.refinement import MAX_CLAUSES

TermKey: TypeAlias = tuple[int, str]  # a field's number and an index term
_REMEMBERED = 1 << 20  # terms whose frequency the engine keeps
_MASKS = 16  # of filters that are kept


_OCCURS: tuple[tuple[str, Literal["must", "should", "must_not"]], ...] = (
    ("+", "must"), ("should", "should"), ("-", "must_not"),
)  # fmt: skip


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
        same = np.array_equal(self._totals, self.index.field_counts)
        return self.index if same else with_totals(self.index, self._totals)

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

    def hits(self, query: Query, k: int, frequencies: Mapping[TermKey, int], where: Where | None) -> SegmentHits:
        found = _SegmentEngine(self.scoring, frequencies, self.mask(where)).search(query, k)
        return self._hits([found], k)

    def refined(
        self, query: Query, refinements: Sequence[Refinement], k: int, frequencies: Mapping[TermKey, int],
        where: Where | None,
    ) -> SegmentHits:  # fmt: skip
        engine = _SegmentEngine(self.scoring, frequencies, self.mask(where))
        return self._hits(engine.refine(query, refinements, k), k)

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
        ends = index.array("stream_ends")
        begins = np.where(deleted > 0, ends[deleted - 1], 0)
        lengths = ends[deleted] - begins
        stops = np.cumsum(lengths)
        within = np.arange(int(stops[-1]) if stops.size else 0) - np.repeat(stops - lengths, lengths)
        stream = index.array("stream")[np.repeat(begins, lengths) + within].astype(np.int64)
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
        windows = np.concatenate([[0], highest + 1])  # in `window_best` 0 is "not here"
        arrays["window_best"] = _frozen(windows[arrays["window_best"]], arrays["window_best"])
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
    """A query's postings in one segment, with the idf of the whole collection."""

    def __init__(self, local: Lists, frequencies: Mapping[TermKey, int]):
        self.index, self._local, self._frequencies = local.index, local, frequencies

    def find(self, texts: Iterable[FieldTerms]) -> dict[FieldTerms, Postings | None]:
        wanted = list(texts)
        known = self._local.find(wanted)
        return {text: self.with_idf(text, postings) if (postings := known[text]) else None for text in wanted}

    def with_idf(self, text: FieldTerms, postings: Postings) -> Postings:
        idfs = [self.index.idf(text.field, self._frequencies[text.field, term]) for term in text.terms]
        return postings._replace(idf=idfs[0] if len(idfs) == 1 else np.float32(sum(map(float, idfs))))

    def saturation(self) -> NDArray[np.float32]:
        return self._local.saturation()

    def pairs(self) -> list[tuple[int, int, int]]:
        return self._local.pairs()

    def rows(self, clauses: Rows) -> NDArray[np.int64]:
        return self._local.rows(clauses)

    def arrays(self) -> tuple[Any, Any, Any, Any, Any]:
        return self._local.arrays()


class _SegmentEngine(EmbeddedEngine):
    """The embedded engine over one segment, for queries of terms whose collection frequencies are given."""

    def __init__(self, index: Index, frequencies: Mapping[TermKey, int], allowed: Mask = EVERYTHING):
        super().__init__(index, threads=1, allowed=allowed)
        self._frequencies = frequencies

    def _compile(self, query: Query) -> Compiled:
        local = super()._compile(query)
        lists = _GlobalLists(local.lists, self._frequencies)

        def with_idf(clauses: list[Clause]) -> list[Clause]:
            return [clause._replace(postings=lists.with_idf(clause.text, clause.postings)) for clause in clauses]

        must, should, must_not = with_idf(local.must), with_idf(local.should), with_idf(local.must_not)
        return replace(local, must=must, should=should, must_not=must_not, lists=lists)


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

    def hits(self, query: Query, k: int, frequencies: Mapping[TermKey, int], where: Where | None) -> SegmentHits:
        """[1, k]: the best k; `frequencies` are those of the whole collection."""
        return self._merged([segment.hits(query, k, frequencies, where) for segment in self.segments], k)

    def refined(
        self, query: Query, refinements: Sequence[Refinement], k: int, frequencies: Mapping[TermKey, int],
        where: Where | None,
    ) -> SegmentHits:  # fmt: skip
        """[refinements, k]: the best k of query + r for every r."""
        parts = [segment.refined(query, refinements, k, frequencies, where) for segment in self.segments]
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
    """The digests of the files that one index of these passages would have: see `Index.passages_fingerprint`."""

    def digest(dtype: str, length: int, chunks: Iterable[NDArray[Any]]) -> str:
        state = blake2b(_header(np.dtype(dtype), length), digest_size=16)
        for chunk in chunks:
            state.update(np.ascontiguousarray(chunk, dtype).data)
        return state.hexdigest()

    def spans(ends_name: str, columns: int) -> list[tuple[Segment, NDArray[np.int64], NDArray[np.int64]]]:
        """Of each segment where its passages start, and where their parts end."""
        found = []
        for segment in segments:
            ends = segment.index.array(ends_name)
            ends = ends[1:] if ends_name == "id_ends" else ends
            ends = ends.reshape(-1, columns)
            starts = np.concatenate([[0], ends[:-1, -1]]) if len(ends) else np.empty(0, np.int64)
            found.append((segment, starts[segment.living], ends[segment.living]))
        return found

    def letters(name: str, spans: Sequence[tuple[Segment, NDArray[np.int64], NDArray[np.int64]]]) -> Any:
        for segment, starts, ends in spans:
            data = segment.index.array(name)
            # Passages that lie one after another are one piece.
            cuts = np.flatnonzero(starts[1:] != ends[:-1, -1]) + 1 if len(starts) else np.empty(0, np.int64)
            for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(starts)], strict=True):
                if low < high:
                    yield data[int(starts[low]) : int(ends[high - 1, -1])]

    content = []
    for name, ends_name, columns in (("ids", "id_ends", 1), ("text", "text_ends", 2)):
        own = spans(ends_name, columns)
        sizes = np.concatenate([ends - starts[:, None] for _, starts, ends in own])  # [passages, columns]
        firsts = np.cumsum(sizes[:, -1]) - sizes[:, -1]
        ends = (firsts[:, None] + sizes).reshape(-1)
        ends = np.concatenate([[0], ends]) if name == "ids" else ends
        total = int(sizes[:, -1].sum())
        content += [digest("|u1", total, letters(name, own)), digest("<i8", ends.size, [ends])]
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def merged(parts: Sequence[SegmentHits], starts: NDArray[np.int64], k: int) -> SegmentHits:
    """The best k of all parts' lists; equal scores in the order of the parts, and of the passages in them.

    parts    each part's hits, by its own numbers
    starts   [parts + 1] the number of each part's first passage in the whole
    """
    numbers = np.concatenate([part.numbers + start for part, start in zip(parts, starts[:-1], strict=True)], axis=1)
    scores = np.concatenate([part.scores for part in parts], axis=1)
    order = np.lexsort((numbers, -scores), axis=-1)[:, :k]
    return SegmentHits(np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1))


def terms_of(query: Query, refinements: Sequence[Refinement] = ()) -> list[TermKey]:
    """Every term whose frequency the query needs, alone and with each of the refinements."""
    terms = analyze(query.question)
    made = [text for refinement in query.refinements if (text := text_of(refinement)) is not None]
    more = [text for refinement in refinements if (text := text_of(refinement)) is not None]
    if (clauses := len(terms) + len(made) + bool(more)) > MAX_CLAUSES:
        raise too_many_clauses(clauses)
    return [(0, term) for term in terms] + [(text.field, term) for text in made + more for term in text.terms]


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
        frequencies = self._document_frequencies(terms_of(query, refinements))
        if not refinements:
            return HitLists.empty(self.index, 0)
        found = self.index.refined(query, refinements, k, frequencies, self.where)
        return HitLists(self.index, found.numbers, found.scores, (found.scores > -np.inf).sum(axis=1))

    def idf(self, field: str, term: str) -> float:
        if field not in FIELD_NUMBER:
            raise UnknownFieldError(f"unknown field {field!r}; expected contents or title")
        key = FIELD_NUMBER[field], term
        return float(self.index.idf(key[0], self._document_frequencies([key])[key]))

    def scores(self, query: Query) -> NDArray[np.float32]:
        frequencies = self._document_frequencies(terms_of(query))
        parts = [
            _SegmentEngine(segment.scoring, frequencies, segment.mask(self.where)).scores(query)[segment.living]
            for segment in self.index.segments
        ]
        return np.concatenate(parts)

    def scores_with(self, query: Query, similarity: Similarity | None) -> NDArray[np.float32]:
        if similarity is not None:
            raise self._needs_one_segment("other parameters of BM25")
        return self.scores(query)

    def postings(self, terms: Sequence[tuple[Field, str]]) -> list[TermPostings]:
        raise self._needs_one_segment("a term's postings")

    def matches(self, terms: Sequence[tuple[Field, str]]) -> list[NDArray[np.uint32]]:
        raise self._needs_one_segment("all passages of a term")

    def nearest_terms(self, word: str, count: int) -> list[str]:
        near = {t: d for segment in self.index.segments for t, d in near_terms(segment.index, word).items()}
        frequency = {term: self._document_frequencies([(0, term)])[0, term] for term in near}
        living = [term for term in near if frequency[term]]
        return sorted(living, key=lambda term: (near[term], -frequency[term]))[:count]

    def _needs_one_segment(self, what: str) -> IndexVersionError:
        path = self.index.folder
        return IndexVersionError(
            f"{path} is in two segments, and {what} need one; `orienteer index --out {path} --merge` makes it one"
        )

    def explain(self, query: Query, passage_id: str) -> Explanation:
        """The share of each clause, also of those whose terms only the other segment has."""
        number = self._number(passage_id)
        home, stored = self.index.place(number)
        frequencies = self._document_frequencies(terms_of(query))
        compiled = [
            (segment, _SegmentEngine(segment.scoring, frequencies)._compile(query)) for segment in self.index.segments
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


def open_segments(
    path: Path | str, opened: tuple[Manifest, list[Index], NDArray[np.int64]] | None = None
) -> SegmentedIndex:
    """The index at `path`, in one segment or two; `opened` where its parts are open already."""
    manifest, parts, deleted = opened or open_parts(path)
    gone = [deleted, np.empty(0, np.int64)]
    return SegmentedIndex(manifest, [Segment(each, no) for each, no in zip(parts, gone, strict=False)], Path(path))
