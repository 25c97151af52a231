"""Passages into an index of a service: the mapping, bulk requests, and going on where a load was broken off.

Every passage carries its place in the collection. What is loaded is then known from the index itself: the largest n
such that n passages have places below n. A second run reads on from there, after it has seen that what is there is what
it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch.index_info import META, read_index_info
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import FieldNames, ServiceSettings
from orienteer.errors import (
    DataError,
    DuplicateIdError,
    NoServiceIndexError,
    ServiceAddressError,
    ServiceAnswerError,
    ServiceIndexError,
)

FORMAT = 1
BATCH_PASSAGES, BATCH_CHARACTERS = 500, 1_000_000  # of one bulk request
TIMEOUT = 120.0  # seconds for one bulk request: a service may be merging segments just then
LONGEST_ID = 512  # bytes, the services' own limit
COMPARED = 64  # passages already there that are compared with those given

Progress = Callable[[int], None]
Numbered = tuple[int, Passage]


@dataclass(frozen=True, slots=True)
class BulkLoadResult:
    passages: int
    already_there: int
    fingerprint: str


def bulk_settings(settings: ServiceSettings) -> ServiceSettings:
    """The settings with the retry that bulk requests need."""
    return replace(settings, timeout=max(settings.timeout, TIMEOUT))


def index_body(names: FieldNames, shards: int) -> dict[str, Any]:
    """ServiceSettings and mapping of an index that gives the embedded engine's results."""
    searched = {"type": "text", "analyzer": "orienteer", "similarity": "orienteer"}
    return {
        "settings": {
            "index": {
                "number_of_shards": shards,
                "number_of_replicas": 0,  # until all is loaded: copies are made once, not document by document
                "refresh_interval": "-1",
                "similarity": {"orienteer": {"type": "BM25", "k1": 1.2, "b": 0.75}},
                "analysis": {"analyzer": {"orienteer": {"type": "standard", "stopwords": "_english_"}}},
            }
        },
        "mappings": {
            "dynamic": False,
            "_meta": {META: {"format": FORMAT, "complete": False}},
            "properties": {
                names.contents: searched,
                names.title: searched,
                names.text: {"type": "text", "index": False},  # stored as part of the source, for the reader
                names.order: {"type": "long"},
            },
        },
    }


def load(
    service: Service,
    passages: Iterable[Passage],
    *,
    shards: int = 1,
    replicas: int = 1,
    progress: Progress = lambda done: None,
) -> BulkLoadResult:
    """Load `passages` into the service's index, which is made where it is not there, and continued where it is."""
    there = _prepare(service, shards)
    digest = blake2b(digest_size=16)
    compare = set(range(0, there, max(1, there // COMPARED))) | {there - 1}
    kept: list[Numbered] = []
    count = 0

    def fresh() -> Iterator[Numbered]:
        nonlocal count
        for number, passage in enumerate(map(_clean, passages)):
            for part in (passage.id, passage.title, passage.text):
                written = part.encode()
                digest.update(len(written).to_bytes(8, "little") + written)
            count = number + 1
            if number in compare:
                kept.append((number, passage))
            if number >= there:
                if kept:
                    _compare(service, kept)
                    kept.clear()
                yield number, passage

    progress(there)
    for turn, group in enumerate(_groups(_batches(fresh()), service.settings.concurrency)):
        if turn == 0:
            _mark(service, {"format": FORMAT, "complete": False})
        service.in_parallel(lambda batch: _send(service, batch), group)
        progress(group[-1][-1][0] + 1)
    _compare(service, kept)
    return _finish(service, count, min(there, count), digest.hexdigest(), replicas)


def _prepare(service: Service, shards: int) -> int:
    """See that the index is there and ours; how many passages it holds without a gap."""
    names = service.settings.names
    if len({names.contents, names.title, names.text, names.order}) < 4:
        raise ServiceAddressError(
            "loading needs a field each for contents, title, text and order; unset ORIENTEER_SEARCH_FIELDS, "
            "or name four different ones in it"
        )
    if service.settings.filter is not None:
        raise ServiceAddressError("a filter is for searching; unset ORIENTEER_SEARCH_FILTER to load passages")
    try:
        meta = read_index_info(service).meta
    except NoServiceIndexError:
        try:
            service.ask("PUT", "", index_body(names, shards))
        except ServiceAnswerError as refused:  # an answer that was lost may have been "made"
            if "already_exists" not in str(refused):
                raise
        # A first document would make an index too, but with a mapping of the service's own invention.
        meta = read_index_info(service).meta
    if meta.get("format") != FORMAT:
        raise ServiceIndexError(
            f"{service.address} is there already and was not made by `orienteer index --to`; "
            "load into an index of another name; what is there is not touched"
        )
    service.ask("POST", "/_refresh")
    low, high = 0, _count(service, 1 << 53)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _count(service, middle) == middle else (low, middle - 1)
    return low


def _count(service: Service, below: int) -> int:
    query = {"range": {service.settings.names.order: {"lt": below}}}
    answer = service.search({"size": 0, "track_total_hits": True, "query": query})
    return int(answer["hits"]["total"]["value"])


def _clean(passage: Passage) -> Passage:
    """What is no character becomes a question mark, as in the embedded index."""
    made = [part.encode("utf-8", "replace").decode() for part in (passage.id, passage.title, passage.text)]
    if not 0 < len(made[0].encode()) <= LONGEST_ID:
        raise DataError(f"the id {made[0][:40]!r} has {len(made[0].encode())} bytes; a service takes 1 to {LONGEST_ID}")
    id, title, text = made
    return Passage(id, title, text)


def _batches(passages: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    batch: list[Numbered] = []
    size = 0
    for number, passage in passages:
        batch.append((number, passage))
        size += len(passage.text) + len(passage.title)
        if len(batch) == BATCH_PASSAGES or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _groups(batches: Iterable[list[Numbered]], size: int) -> Iterator[list[list[Numbered]]]:
    group: list[list[Numbered]] = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _send(service: Service, batch: Sequence[Numbered]) -> None:
    names = service.settings.names
    stored = service.create([(passage.id, _document(names, number, passage)) for number, passage in batch])
    refused = [numbered for numbered, new in zip(batch, stored, strict=True) if not new]
    places = _fetched(service, [passage.id for _, passage in refused], names.order)
    for (number, passage), place in zip(refused, places, strict=True):
        if place.get(names.order) != number:  # else it is from an earlier run, or from a request whose answer was lost
            raise DuplicateIdError(
                f"two passages have the id {passage.id!r} (number {place.get(names.order, -1) + 1} and "
                f"number {number + 1}); ids must be unique",
                passage.id,
            )


def _document(names: FieldNames, number: int, passage: Passage) -> dict[str, Any]:
    title = {names.title: passage.title} if passage.title else {}
    return {names.order: number, **title, names.text: passage.text, names.contents: passage.contents}


def _compare(service: Service, given: Sequence[Numbered]) -> None:
    names = service.settings.names
    found = _fetched(service, [passage.id for _, passage in given], names.order, names.title, names.text)
    for (number, passage), there in zip(given, found, strict=True):
        held = there.get(names.order), there.get(names.title, ""), there.get(names.text)
        if held != (number, passage.title, passage.text):
            raise ServiceIndexError(
                f"{service.address} holds other passages than those given: number {number + 1}, {passage.id!r}, is not "
                "the same there; load into an index of another name, or delete that one"
            )


def _fetched(service: Service, ids: Sequence[str], *names: str) -> list[dict[str, Any]]:
    """The stored fields of these documents; nothing for one that is not there."""
    if not ids:
        return []
    rows = service.ask_list("POST", "/_mget", {"ids": list(ids)}, "docs", len(ids), _source=",".join(names))
    return [row.get("_source", {}) for row in rows]


def _finish(service: Service, count: int, there: int, fingerprint: str, replicas: int) -> BulkLoadResult:
    service.ask("POST", "/_refresh")
    if (held := _count(service, 1 << 53)) != count:
        raise ServiceIndexError(
            f"{service.address} holds {held:,} passages where {count:,} were given; "
            "was it loaded from more files before? Load into an index of another name, or delete that one"
        )
    _mark(service, {"format": FORMAT, "complete": True, "passages": count, "fingerprint": fingerprint})
    service.ask("PUT", "/_settings", {"index": {"refresh_interval": None, "number_of_replicas": replicas}})
    return BulkLoadResult(count, there, fingerprint)


def _mark(service: Service, meta: dict[str, Any]) -> None:
    service.ask("PUT", "/_mapping", {"_meta": {META: meta}})
