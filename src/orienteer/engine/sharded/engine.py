"""Several embedded indexes as one engine: the results of one index over all passages, to the bit.

Passages are ordered by shard, then by their order within it. Statistics are summed over the shards before anything is
scored; each shard then scores its own passages with these sums, and the best k of all shards' best k are the best k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.index import FIELD_NUMBER
from orienteer.engine.embedded.metadata_filter import unknown_field
from orienteer.engine.embedded.one_segment import both, filtered_fingerprint
from orienteer.engine.embedded.refine import plan
from orienteer.engine.embedded.segments import SegmentHits, TermKey, merged, terms_of
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.sharded.shard import ShardInfo
from orienteer.engine.sharded.shard_transport import LocalTransport, ProcessTransport, ShardTransport
from orienteer.errors import DuplicateIdError, OrienteerError, UnknownFieldError, UnknownPassageError
from orienteer.query import Query, Refinement, Where, parse_where
from orienteer.query.where import fields_of

_REMEMBERED = 1 << 20  # terms whose frequency the engine keeps


class _LazyIds:
    """The ids of one result's passages, fetched together on first access."""

    def __init__(self, transport: ShardTransport, starts: NDArray[np.int64], numbers: NDArray[np.int64]):
        self._transport, self._starts, self._numbers = transport, starts, numbers
        self._ids: dict[int, str] | None = None

    def id(self, number: int) -> str:
        if self._ids is None:
            numbers = np.unique(self._numbers)
            cuts = np.searchsorted(numbers, self._starts)
            by_shard = [
                (numbers[low:high] - start).tolist()
                for low, high, start in zip(cuts[:-1], cuts[1:], self._starts[:-1], strict=True)
            ]
            parts = self._transport.call("ids", [(part,) for part in by_shard])
            self._ids = dict(zip(numbers.tolist(), [name for part in parts for name in part], strict=True))
        return self._ids[number]


class ShardedEngine:
    """`Engine` over a transport of shards."""

    def __init__(self, transport: ShardTransport):
        self._transport = transport
        shards: list[ShardInfo] = transport.call("info", [()] * len(transport))
        self._starts = np.cumsum([0, *(shard.passages for shard in shards)])  # [shards + 1]
        self._totals = np.array([shard.field_counts for shard in shards], np.int64).sum(axis=0).reshape(2, 2)
        self._frequencies: dict[TermKey, int] = {}
        self.where: Where | None = None
        transport.call("set_totals", [(self._totals,)] * len(transport))
        joined = "\n".join(shard.fingerprint for shard in shards)
        self._fingerprint = self.fingerprint = f"shards-{blake2b(joined.encode(), digest_size=16).hexdigest()}"

    def filtered(self, where: str | Where) -> ShardedEngine:
        """The same shards for the passages whose metadata passes the filter: see `query/where.py`."""
        wanted = parse_where(where) if isinstance(where, str) else where
        fields = fields_of(wanted)
        parts: list[tuple[list[bool], frozenset[str]]] = self._call("fields", fields)
        for at, field in enumerate(fields):
            if not any(held[at] for held, _ in parts):
                raise unknown_field(field, frozenset[str]().union(*(known for _, known in parts)))
        narrowed = copy(self)
        narrowed.where = both(self.where, wanted)
        narrowed.fingerprint = filtered_fingerprint(self._fingerprint, narrowed.where)
        return narrowed

    def __len__(self) -> int:
        return int(self._starts[-1])

    def close(self) -> None:
        self._transport.close()

    def search(self, query: Query, k: int = 5) -> Hits:
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[Hits]:
        k = max(0, min(k, len(self)))
        frequencies = self._document_frequencies(term for query in queries for term in terms_of(query))
        arguments: tuple[Any, ...] = (list(queries), k, frequencies, self.where)
        each = [arguments] * len(self._transport)
        if self._transport.shares_memory:
            floors = np.zeros(len(queries), np.float32)
            each = [(*arguments, floors, at * len(queries) // len(each)) for at in range(len(each))]
        hits: list[SegmentHits] = self._transport.call("search", each)
        merged = self._merged(hits, k)
        return [merged[at] for at in range(len(queries))]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        return self.refine_many([query], [refinements], k)[0]

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> list[HitLists]:
        """`refine` for many queries, one call per shard."""
        k = max(0, min(k, len(self)))
        requests = [(query, plan(options)) for query, options in zip(queries, refinements, strict=True)]
        frequencies = self._document_frequencies(term for request in requests for term in terms_of(*request))
        arguments: tuple[Any, ...] = (requests, k, frequencies, self.where)
        each = [arguments] * len(self._transport)
        if self._transport.shares_memory:
            floors = [np.full(len(planned), -np.inf, np.float32) for _, planned in requests]
            each = [(*arguments, floors, at * len(requests) // len(each)) for at in range(len(each))]
        hits: list[list[SegmentHits]] = self._transport.call("refine", each)
        return [self._merged([part[at] for part in hits], k) for at in range(len(requests))]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        parts: list[list[Passage | None]] = self._call("find", list(ids))
        passages = []
        for passage_id, *candidates in zip(ids, *parts, strict=True):
            if (passage := next(filter(None, candidates), None)) is None:
                raise UnknownPassageError(f"no shard holds a passage {passage_id!r}")
            passages.append(passage)
        return passages

    def idf(self, field: str, term: str) -> float:
        if field not in FIELD_NUMBER:
            raise UnknownFieldError(f"unknown field {field!r}; expected contents or title")
        key = FIELD_NUMBER[field], term
        return float(bm25.idf(int(self._totals[key[0], 0]), self._document_frequencies([key])[key]))

    def analyze(self, text: str) -> list[str]:
        return analyze(text)

    def check_ids(self) -> None:
        """Raise an error when two shards hold passages of one id, as an index of all would."""
        hashes = np.concatenate(self._call("id_hashes"))
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        for first, second in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
            names = _LazyIds(self._transport, self._starts, np.array([first, second]))
            if (twice := names.id(first)) == names.id(second):
                one, other = np.searchsorted(self._starts, np.array([first, second]), side="right").tolist()
                raise DuplicateIdError(
                    f"two passages have the id {twice!r} (in shard {one} and shard {other}); "
                    "ids must be unique over all shards",
                    twice,
                )

    def _call(self, method: str, *arguments: Any) -> list[Any]:
        """Every shard's result of one method with the same arguments."""
        return self._transport.call(method, [arguments] * len(self._transport))

    def _document_frequencies(self, terms: Iterable[TermKey]) -> dict[TermKey, int]:
        """In how many passages of the whole collection each term occurs."""
        wanted = list(dict.fromkeys(terms))
        if len(self._frequencies) > _REMEMBERED:
            self._frequencies = {}
        known = self._frequencies
        if new := [term for term in wanted if term not in known]:
            counts = np.sum(self._call("frequencies", new), axis=0)
            known.update(zip(new, counts.tolist(), strict=True))
        return {term: known[term] for term in wanted}

    def _merged(self, parts: Sequence[SegmentHits], k: int) -> HitLists:
        numbers, scores = merged(parts, self._starts, k)
        here = scores > -np.inf
        names = _LazyIds(self._transport, self._starts, numbers[here])
        return HitLists(names, numbers, scores, here.sum(axis=1))


def open_shards(paths: Sequence[Path | str], *, processes: bool = False, check_ids: bool = True) -> ShardedEngine:
    """The indexes at `paths` as one engine; with `processes`, each in a process of its own."""
    if not paths:
        raise OrienteerError("no shard; name the folder of one index or more")
    engine = ShardedEngine(ProcessTransport(paths) if processes else LocalTransport(paths))
    if check_ids:
        engine.check_ids()
    return engine
