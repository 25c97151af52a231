"""Embeddings on disk: a vector for every passage of an index, in int8 with a scale a row, in shards.

    DIR/embeddings.json       of which passages, by which encoder, and the checksum of every shard made so far
    DIR/shard-00000.npy       rows (key uint64, scale float32, vector int8 [width]); vector · scale has length 1

A key is a hash of the passage's contents. It tells which vectors of another set can be copied; version 1 had none.

A shard is flushed and renamed into its place, then the manifest that names it is; a shard that the manifest does not
name was a killed writer's and is made again. So what is named is always complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from orienteer.data.atomic import atomic_path, atomic_write
from orienteer.engine.protocol import StoresPassages
from orienteer.errors import OrienteerError

FORMAT, VERSION = "orienteer-embeddings", 2
MANIFEST = "embeddings.json"
SHARD = 4096  # passages; what a kill can cost, some 40 seconds of work

Rows = NDArray[Any]  # of `row_type`
Ranges = tuple[tuple[int, int], ...]  # [first, end) in index order, with a gap after each but the last
_NAMED_RANGES = 3  # in a message


class DenseError(OrienteerError):
    """Base of what can be wrong in dense retrieval."""


class EmbeddingsMissingError(DenseError):
    """No embeddings in this folder, or not all of them yet."""


class EmbeddingsMismatchError(DenseError):
    """Embeddings or a run of other passages, or of another encoder."""


class EmbeddingsCorruptError(DenseError):
    """A shard, a manifest or a run that is truncated or damaged."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder of embeddings holds.

    encoder   the encoder's fingerprint
    shard     passages a shard
    shards    checksums in order, None where a shard is not made yet
    address   where the encoder is: `static` for the shipped one, a folder, or empty where it was not noted
    version   of the format; 1 has no keys
    """

    passages_fingerprint: str
    encoder: str
    width: int
    passages: int
    shard: int
    shards: tuple[str | None, ...]
    address: str = ""
    version: int = VERSION

    @classmethod
    def of(cls, engine: StoresPassages, encoder: str, width: int, shard: int = SHARD, address: str = "") -> Manifest:
        """The manifest before any work."""
        count = -(-len(engine) // shard)
        return cls(engine.passages_fingerprint, encoder, width, len(engine), shard, (None,) * count, address)

    @property
    def complete(self) -> bool:
        return None not in self.shards

    @property
    def row_type(self) -> np.dtype[Any]:
        return row_type(self.width, keyed=self.version > 1)

    @property
    def covered(self) -> Ranges:
        """The passages of the shards made so far."""
        made = (self.rows(number) for number, digest in enumerate(self.shards) if digest is not None)
        return join_ranges((rows.start, rows.stop) for rows in made)

    def holding(self, passages: range) -> range:
        """The shards that hold these passages."""
        return range(passages.start // self.shard, -(-passages.stop // self.shard))

    def rows(self, number: int) -> range:
        """The passages of a shard, by their numbers in the index."""
        return range(number * self.shard, min(self.passages, (number + 1) * self.shard))

    def with_shard(self, number: int, digest: str | None) -> Manifest:
        return replace(self, shards=(*self.shards[:number], digest, *self.shards[number + 1 :]))


class Embeddings:
    """The vectors of an index, memory-mapped; `shards` is {number: rows} in the order of the passages."""

    def __init__(self, manifest: Manifest, shards: Mapping[int, Rows]) -> None:
        self.manifest, self.shards = manifest, shards

    @cached_property
    def scales(self) -> Mapping[int, NDArray[np.float32]]:
        """Each shard's scales, side by side in memory."""
        return {number: np.ascontiguousarray(rows["scale"]) for number, rows in self.shards.items()}

    def row(self, number: int) -> Any:
        """The row of a passage, by its number in the index."""
        return self.shards[number // self.manifest.shard][number % self.manifest.shard]

    @classmethod
    def open(cls, folder: str | Path, *, partial: bool = False) -> Embeddings:
        """Sizes and headers are checked; `orienteer embed` reads every byte. With `partial`, the shards made so far."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        made = [number for number, digest in enumerate(manifest.shards) if digest is not None]
        if len(made) < len(manifest.shards) and not (partial and made):
            raise EmbeddingsMissingError(
                f"{folder} holds {len(made)} of {len(manifest.shards)} shards; run the same `orienteer embed` or "
                "`orienteer index --dense` again to make the rest, or write a run of what is there with "
                "`orienteer dense-run --partial`"
            )
        return cls(manifest, {number: _map(shard_file(folder, number), manifest, number) for number in made})

    def check(self, engine: StoresPassages, encoder: str) -> None:
        """Raise where these are not the vectors of this index by this encoder."""
        made = self.manifest
        if made.passages_fingerprint != engine.passages_fingerprint:
            raise EmbeddingsMismatchError(
                "these embeddings are of other passages than the index holds; make its own with `orienteer embed`"
            )
        if made.encoder != encoder:
            raise EmbeddingsMismatchError(
                f"these embeddings were made by the encoder {made.encoder}, this one is {encoder}; name the folder of "
                "the right one, ORIENTEER_ENCODER=FOLDER, or make the embeddings again"
            )


def row_type(width: int, *, keyed: bool = True) -> np.dtype[Any]:
    key = [("key", "<u8")] if keyed else []
    return np.dtype([*key, ("scale", "<f4"), ("vector", "i1", (width,))])


def key_of(contents: str) -> int:
    """A passage's key: equal contents have equal keys, different ones almost surely different keys."""
    return int.from_bytes(hashlib.blake2b(contents.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def rounded(vectors: NDArray[np.float32], keys: NDArray[np.uint64] | None = None) -> Rows:
    """Vectors as int8 with a scale each: value = int8 · scale; with `keys`, rows that have one."""
    rows = np.empty(len(vectors), row_type(vectors.shape[1], keyed=keys is not None))
    if keys is not None:
        rows["key"] = keys
    scale = (np.maximum(np.abs(vectors).max(1, initial=0), 1e-12) / 127).astype(np.float32)
    rows["scale"] = scale
    rows["vector"] = np.rint(vectors / scale[:, None]).astype(np.int8)
    return rows


def shard_file(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.npy"


def read_manifest(folder: Path) -> Manifest:
    file = folder / MANIFEST
    try:
        raw = json.loads(file.read_bytes())
        if raw.pop("format") != FORMAT or raw["version"] not in (1, VERSION):
            raise EmbeddingsCorruptError(f"{file} is not a manifest of format {FORMAT} {VERSION}; make them again")
        manifest = Manifest(**{**raw, "shards": tuple(raw["shards"])})
        if len(manifest.shards) != -(-manifest.passages // manifest.shard):
            raise ValueError("the number of shards")
        return manifest
    except (FileNotFoundError, NotADirectoryError):
        raise EmbeddingsMissingError(
            f"no embeddings in {folder}: {MANIFEST} is not there; make them with `orienteer embed`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        raise EmbeddingsCorruptError(f"{file} is damaged; delete the folder and make the embeddings again") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1) + "\n"
    atomic_write(folder / MANIFEST, text)


def write_shard(folder: Path, number: int, rows: Rows) -> str:
    """Puts a shard in its place and returns its checksum."""
    file = shard_file(folder, number)
    with atomic_path(file) as partial, partial.open("wb") as opened:
        npy.write_array(opened, rows, (1, 0), allow_pickle=False)
    return digest_of(file)


def digest_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def damaged_shards(folder: Path) -> list[Path]:
    """Shards that the manifest names and that are lost or have another checksum; reads every byte."""
    files = [(shard_file(folder, number), digest) for number, digest in enumerate(read_manifest(folder).shards)]
    return [file for file, digest in files if digest is not None and not (file.is_file() and digest_of(file) == digest)]


def _map(file: Path, manifest: Manifest, number: int) -> Rows:
    try:
        rows: Rows = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise EmbeddingsCorruptError(f"{file} cannot be read: {error}; run `orienteer embed` again") from None
    if rows.dtype != manifest.row_type or rows.shape != (len(manifest.rows(number)),):
        raise EmbeddingsCorruptError(f"{file} holds {rows.shape} rows of another kind; run `orienteer embed` again")
    return rows


def join_ranges(parts: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, none in another's place, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, end in parts:
        if found and found[-1][1] == first:
            first, _ = found.pop()
        found.append((first, end))
    return tuple(found)


def gaps(ranges: Ranges, size: int) -> Ranges:
    """What the ranges leave out of `size` passages."""
    ends, firsts = (0, *(end for _, end in ranges)), (*(first for first, _ in ranges), size)
    return tuple((end, first) for end, first in zip(ends, firsts, strict=True) if end < first)


def count_passages(ranges: Ranges) -> int:
    return sum(end - first for first, end in ranges)


def as_options(ranges: Ranges) -> str:
    """Ranges as `orienteer embed` takes them."""
    named = ", ".join(f"--from {first} --to {end}" for first, end in ranges[:_NAMED_RANGES])
    return f"{named}, …" if len(ranges) > _NAMED_RANGES else named
