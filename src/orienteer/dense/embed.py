"""Makes embeddings shard by shard; a run stopped at any point continues later and writes the same bytes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from orienteer.dense.embeddings import (
    MANIFEST,
    SHARD,
    DenseError,
    Embeddings,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    Manifest,
    Rows,
    digest_of,
    key_of,
    read_manifest,
    rounded,
    shard_file,
    write_manifest,
    write_shard,
)
from orienteer.dense.encoder import Encoder
from orienteer.dense.static_encoder import open_encoder
from orienteer.engine.protocol import StoresPassages
from orienteer.workers import Progress, run_chunks

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class EmbedWorkers:
    """Worker processes and what each of them opens; see `orienteer.workers` for `workers` and `ray`."""

    index: Path
    encoder: str | Path | None = None
    workers: int = 1
    ray: str | None = None

    def __call__(self) -> Callable[[_Part], Rows]:
        """The work of a worker, opened there."""
        from orienteer.engine import open_index

        engine, encoder = open_index(self.index), open_encoder(self.encoder, threads=1)
        opened = engine.passages_fingerprint, encoder.fingerprint

        def embed(part: _Part) -> Rows:
            if (part.passages, part.encoder) != opened:
                raise EmbeddingsMismatchError(
                    f"a worker sees other passages or another encoder than this process at {self.index}; "
                    "let every worker see the same files"
                )
            return _embedded(engine, encoder, part)

        return embed


@dataclass(frozen=True, slots=True)
class _Part:
    """The passages of a shard, and whose they are."""

    rows: range
    passages: str
    encoder: str
    keyed: bool


def embed_index(
    engine: StoresPassages, encoder: Encoder, folder: str | Path, *, shard: int = SHARD,
    passages: range | None = None, progress: OnProgress | None = None, workers: EmbedWorkers | None = None,
    known: Embeddings | None = None,
) -> Manifest:  # fmt: skip
    """A vector for every passage, in `folder`; goes on where an earlier run stopped.

    With `passages`, a range of their numbers, only the shards that hold these are made. With `known`, vectors by the
    same encoder of other passages, those of equal contents are copied from there; workers encode all the same.
    Shards that are there are read and checked first, and made again where damaged. A vector depends on its passage
    alone, so that a killed and resumed run, or one by many workers, writes the same bytes as an undisturbed one.
    """
    folder = Path(folder)
    passages = _checked(passages, len(engine))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DenseError(f"{folder}: cannot be written: {error.strerror}; choose another folder") from None
    with _only_one(folder):
        manifest = _begun(folder, Manifest.of(engine, encoder.fingerprint, encoder.width, shard, encoder.address))
        wanted = manifest.holding(passages)
        manifest = _whole_so_far(folder, manifest, wanted)
        clock = _Clock(manifest, wanted, progress)
        missing = [number for number in wanted if manifest.shards[number] is None]
        names = manifest.passages_fingerprint, manifest.encoder, manifest.version > 1
        parts = [_Part(manifest.rows(number), *names) for number in missing]
        made: Iterator[tuple[int, Rows]]
        if workers is None:
            places = _by_key(known, encoder) if known is not None and parts else {}
            copies = known, places
            made = ((at, _embedded(engine, encoder, part, clock.inside, copies)) for at, part in enumerate(parts))
        else:
            made = run_chunks(workers, parts, workers=workers.workers, ray=workers.ray)
        for place, rows in made:
            manifest = manifest.with_shard(missing[place], write_shard(folder, missing[place], rows))
            write_manifest(folder, manifest)
            clock.finished(len(rows))
        return manifest


def _checked(passages: range | None, size: int) -> range:
    """The passages wanted, all without a range."""
    if passages is None:
        return range(size)
    if not 0 <= passages.start < passages.stop <= size:
        raise DenseError(
            f"no passages from {passages.start} to {passages.stop} in this index; expected 0 ≤ from < to ≤ {size}, "
            "the number of its passages"
        )
    return passages


Copies = tuple[Embeddings | None, Mapping[int, int]]


def _embedded(
    engine: StoresPassages, encoder: Encoder, part: _Part, report: Callable[[int], None] | None = None,
    copies: Copies = (None, {}),
) -> Rows:  # fmt: skip
    """The rows of a shard: copied where another set has the same contents, else encoded."""
    texts = [engine.passage_at(row).contents for row in part.rows]
    if not part.keyed:
        return rounded(encoder.encode(texts, report))
    keys = np.array([key_of(text) for text in texts], np.uint64)
    known, places = copies
    copied = {at: places[key] for at, key in enumerate(keys.tolist()) if key in places}
    fresh = [at for at in range(len(texts)) if at not in copied]
    encoded = rounded(encoder.encode([texts[at] for at in fresh], report), keys[fresh])
    if known is None or not copied:
        return encoded
    rows = np.empty(len(texts), encoded.dtype)
    rows[fresh] = encoded
    for at, number in copied.items():
        rows[at] = known.row(number)
    return rows


def _by_key(known: Embeddings, encoder: Encoder) -> dict[int, int]:
    """The passage numbers of vectors by their keys."""
    made = known.manifest
    if made.encoder != encoder.fingerprint or made.version < 2:
        return {}
    return {
        key: made.rows(shard).start + at
        for shard, rows in known.shards.items()
        for at, key in enumerate(rows["key"].tolist())
    }


def _begun(folder: Path, wanted: Manifest) -> Manifest:
    """The manifest of the run that this one continues, or the wanted one where nothing is begun."""
    try:
        found = read_manifest(folder)
    except EmbeddingsMissingError:
        write_manifest(folder, wanted)
        return wanted
    if replace(found, shards=wanted.shards, address=wanted.address, version=wanted.version) != wanted:
        raise EmbeddingsMismatchError(
            f"{folder / MANIFEST} was begun with other passages, another encoder or another shard size; "
            "choose another folder, or delete this one"
        )
    return found


def _whole_so_far(folder: Path, manifest: Manifest, wanted: range) -> Manifest:
    """The manifest without shards, of those wanted, that are lost or damaged."""
    for number in wanted:
        file, digest = shard_file(folder, number), manifest.shards[number]
        if digest is not None and (not file.is_file() or digest_of(file) != digest):
            manifest = manifest.with_shard(number, None)
    return manifest


class _Clock:
    """Time left, from the pace of this run."""

    def __init__(self, manifest: Manifest, wanted: range, report: OnProgress | None) -> None:
        self._total = sum(len(manifest.rows(number)) for number in wanted)
        self._done = sum(len(manifest.rows(number)) for number in wanted if manifest.shards[number] is not None)
        self._first, self._started, self._report = self._done, perf_counter(), report
        self.inside(0)

    def inside(self, more: int) -> None:
        """So many passages of the shard in work are done."""
        if self._report is None:
            return
        done = self._done + more
        made = done - self._first
        left = (perf_counter() - self._started) / made * (self._total - done) if made else None
        self._report(Progress(done, self._total, left))

    def finished(self, size: int) -> None:
        self._done += size
        self.inside(0)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """The only writer of the folder; the lock goes with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DenseError(f"another process is writing {folder}; try again when it is done") from None
    try:
        yield
    finally:
        os.close(descriptor)
