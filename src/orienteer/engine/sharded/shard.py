"""One part of a collection that scores by the statistics of the whole.

What BM25 needs of the whole collection (how many passages have a field, how long it is on average, in how many a term
stands) is given to the shard; the passages and their postings are its own. It takes and gives only queries, strings and
arrays, so it may live anywhere: `shard_transport.py` calls it there, `engine.py` makes one engine of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded.kernels.tokenize import hash_terms
from orienteer.engine.embedded.refine import PlannedRefinements
from orienteer.engine.embedded.segmented_index import open_segments
from orienteer.engine.embedded.segments import SegmentHits, TermKey
from orienteer.query import Query, Where

RefineRequest: TypeAlias = tuple[Query, PlannedRefinements]


@dataclass(frozen=True)
class ShardInfo:
    """What the engine needs to know of a shard."""

    passages: int
    field_counts: NDArray[np.int64]  # [2, 2]: passages that have the field, terms in it
    fingerprint: str


class Shard:
    """One part of the collection, which scores by the statistics of the whole."""

    def __init__(self, path: Path | str):
        self._index = open_segments(path)

    def info(self) -> ShardInfo:
        index = self._index
        return ShardInfo(index.size, index.own_field_counts, index.manifest.fingerprint)

    def set_totals(self, totals: NDArray[np.int64]) -> None:
        """Score from now on with the field statistics of the whole collection [2, 2]."""
        self._index.set_totals(totals)

    def frequencies(self, words: Sequence[TermKey]) -> NDArray[np.int64]:
        """In how many of this shard's passages each word stands."""
        return self._index.frequencies(words)

    def fields(self, wanted: Sequence[str]) -> tuple[list[bool], frozenset[str]]:
        """Which fields of metadata some passage has a value of, and all names of fields."""
        filters = [segment.index.metadata_filter for segment in self._index.segments]
        held = [any(each.has(field) for each in filters) for field in wanted]
        return held, frozenset[str]().union(*(each.fields() for each in filters))

    def search(
        self, queries: Sequence[Query], k: int, frequencies: Mapping[TermKey, int], where: Where | None = None,
        floors: NDArray[np.float32] | None = None, first: int = 0,
    ) -> SegmentHits:  # fmt: skip
        """The shard's top k of each query; `frequencies` are the whole collection's, of every word of the queries.

        floors [queries]: the highest k-th score that a shard has found; hits below it may be missing, and the shard
        puts its own there. Shards that work at the same time start at different queries (`first`), so that each finds
        what the others have done.
        """
        numbers, scores = np.zeros((len(queries), k), np.int64), np.full((len(queries), k), -np.inf, np.float32)
        for at in (*range(first, len(queries)), *range(first)):
            floor = 0.0 if floors is None else float(floors[at])
            hits = self._index.hits(queries[at], k, frequencies, where, floor)
            numbers[at], scores[at] = hits.numbers[0], hits.scores[0]
            if floors is not None and k:
                floors[at] = max(floors[at], scores[at, -1])
        return SegmentHits(numbers, scores)

    def refine(
        self, requests: Sequence[RefineRequest], k: int, frequencies: Mapping[TermKey, int],
        where: Where | None = None, floors: Sequence[NDArray[np.float32]] | None = None, first: int = 0,
    ) -> list[SegmentHits]:  # fmt: skip
        """The shard's top k of query + r for every r of every request; `floors` and `first` as in `search`."""
        found: list[SegmentHits | None] = [None] * len(requests)
        for at in (*range(first, len(requests)), *range(first)):
            own = None if floors is None else floors[at]
            query, planned = requests[at]
            found[at] = self._index.refined(query, planned, k, frequencies, where, own)
        return [hits for hits in found if hits is not None]

    def ids(self, numbers: Sequence[int]) -> list[str]:
        return [self._index.id(number) for number in numbers]

    def find(self, ids: Sequence[str]) -> list[Passage | None]:
        """The passages with these ids; None where another shard has it, or none."""
        numbers = [self._index.number(passage_id) for passage_id in ids]
        return [None if number is None else self._index.passage(number) for number in numbers]

    def id_hashes(self) -> NDArray[np.uint64]:
        parts = [
            hash_terms(segment.index.array("id_ends"), segment.index.array("ids"))[segment.living]
            for segment in self._index.segments
        ]
        return np.concatenate(parts)
