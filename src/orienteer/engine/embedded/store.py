"""An index on disk: generations, the manifest that names the current one, checksums, the writer's lock.

A commit is one rename. A writer fills a new folder `generation-N`, flushes every file to the disk, and only then
puts a new `manifest.json` in the place of the old one; until that rename, readers and a machine that lost power
see the old generation, after it the new one, never a mixture. Folders that no manifest names are a killed writer's
and are removed by the next one. The lock belongs to the open file: a killed writer leaves none behind.

An index may have two segments (format 4): a base, which is an older generation that stays, and a delta, the generation
of the manifest, with what was added since; the array `deleted` of the delta names the passages of the base that are
gone. Both are named by the one manifest, so a commit of a delta is as atomic as any.

An index may come from a stranger. Every file of it is opened as a regular file, never through a link; it must be in
`ARRAYS`, with a type listed there; sizes and headers must be those of the manifest. What is created is new: nothing
that lies in the folder already is written through. `structure.py` checks the contents.

    DIR/manifest.json          format, version, settings, counts, each file's size, shape and checksum; the base's too
    DIR/generation-000001/     one .npy file an array
    DIR/write.lock
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from orienteer.data.regular_files import create_new, open_folder, open_lock, open_regular, read_regular
from orienteer.errors import (
    IndexCorruptError,
    IndexLockedError,
    IndexMissingError,
    IndexVersionError,
    OrienteerError,
)

FORMAT = "orienteer-index"
VERSION = 3  # 1 and 2 stored text and stream as they are
SEGMENTED = 4  # the version of an index with a base and a delta
MANIFEST = "manifest.json"
LOCK = "write.lock"
HEADER_BYTES = 128  # of every .npy file, so that a header can be written again when the length is known
LARGEST_MANIFEST = 1 << 20  # bytes; one of 19 arrays has some 3,000
TEMPORARY = f".{MANIFEST}.*.new"  # a manifest before its rename

# Every array that an index may hold, with its possible types; all have one dimension. Anything else is refused.
CODES = ("<u2", "<u4")
ARRAYS: Mapping[str, tuple[str, ...]] = {
    "best_codes": CODES, "codes": CODES, "deleted": ("<i8",), "documents": ("<u4",), "id_ends": ("<i8",),
    "id_slots": ("<i4",), "ids": ("|u1",), "long_lists": ("<i8",), "metadata": ("|u1",), "metadata_ends": ("<i8",),
    "norms": ("|u1",), "offsets": ("<i8",), "pairs": ("<u4",), "passages": ("|u1",), "ranked": ("<i4",),
    "sources": ("|u1",), "stream": ("<u4",), "stream_ends": ("<i8",), "term_ends": ("<i8",), "terms": ("|u1",),
    "text": ("|u1",), "text_dictionary": ("|u1",), "text_ends": ("<i8",), "title_positions": ("<i4",),
    "window_best": CODES, "window_starts": ("<u4",),
}  # fmt: skip
# Metadata: both or none, an index of passages without metadata has none. `deleted`: in a delta, and only there.
# `sources`: the state of `orienteer sync`.
OPTIONAL_ARRAYS = ("deleted", "metadata", "metadata_ends", "sources")
COUNTS = (
    "passages", "terms", "postings", "contents_passages", "contents_length", "title_passages", "title_length"
)  # fmt: skip

Array = NDArray[Any]


@dataclass(frozen=True)
class Manifest:
    generation: int
    settings: dict[str, Any]
    counts: dict[str, int]
    files: dict[str, dict[str, Any]]
    base: Manifest | None = None  # of a delta: `counts` and `files` are those of the delta alone

    @property
    def folder(self) -> str:
        return f"generation-{self.generation:06d}"

    @property
    def passages(self) -> int:
        """How many passages there are in all."""
        if self.base is None:
            return self.counts["passages"]
        return self.base.counts["passages"] + self.counts["passages"] - int(self.files["deleted.npy"]["shape"][0])

    @property
    def fingerprint(self) -> str:
        """Names the index by its content: equal for equal passages in equal order, in the same segments."""
        # `passages` stands for the texts: how they are compressed may depend on the version of zstd.
        left_out = {"sources.npy", "text.npy", "text_ends.npy", "text_dictionary.npy"}
        content = {name: entry["blake2b"] for name, entry in self.files.items() if name not in left_out}
        parts: list[Any] = [self.settings, self.counts, content]
        if self.base is not None:
            parts.append(self.base.fingerprint)
        return _digest(json.dumps(parts, sort_keys=True).encode())


def read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    try:
        data = read_regular(file, LARGEST_MANIFEST)
        raw = json.loads(data)
        if raw.get("format") != FORMAT:
            raise IndexCorruptError(f"{file} is not an Orienteer index manifest; build the index again")
        if raw["version"] not in (VERSION, SEGMENTED):
            raise IndexVersionError(
                f"{path} has index format {raw['version']}, this Orienteer reads format {VERSION} and {SEGMENTED}; "
                "build the index again with `orienteer index`"
            )
        if data != _rendered(raw) or raw.pop("checksum") != _digest(_canonical(raw)):
            raise IndexCorruptError(f"{file} is damaged: its checksum does not match; build the index again")
        _check_manifest(file, raw)
        base = None
        if raw["version"] == SEGMENTED:
            older = {**raw["base"], "settings": raw["settings"]}
            _check_manifest(file, older)
            if older["generation"] >= raw["generation"] or "deleted.npy" not in raw["files"]:
                raise IndexCorruptError(f"{file} is damaged: its segments do not fit; build the index again")
            base = Manifest(older["generation"], older["settings"], older["counts"], older["files"])
        return Manifest(raw["generation"], raw["settings"], raw["counts"], raw["files"], base)
    except FileNotFoundError:
        raise IndexMissingError(
            f"no index at {path}: {MANIFEST} is not there; make one with `orienteer index PASSAGES --out {path}`"
        ) from None
    except NotADirectoryError:
        raise IndexMissingError(f"no index at {path}: that is a file, an index is a folder") from None
    except PermissionError:
        raise IndexMissingError(f"the index at {path} cannot be read: permission denied") from None
    except OSError as error:
        raise IndexCorruptError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError):
        raise IndexCorruptError(f"{file} is damaged: it is not a manifest; build the index again") from None


def _check_manifest(file: Path, raw: Mapping[str, Any]) -> None:
    """Refuses entries that no writer makes; a checksum proves nothing about a stranger's manifest."""
    counts, files = raw["counts"], raw["files"]
    whole = [raw["generation"], *(counts[name] for name in COUNTS)]
    if not all(map(_is_count, whole)) or len(counts) != len(COUNTS) or not isinstance(raw["settings"], dict):
        raise IndexCorruptError(f"{file} is damaged: its counts are not those of an index; build the index again")
    for name, entry in files.items():
        dtype, shape = entry["dtype"], entry["shape"]
        array = name.removesuffix(".npy")
        if array == name or array not in ARRAYS or dtype not in ARRAYS[array]:
            raise IndexCorruptError(f"{file} lists {name!r} of type {dtype!r}, which no index has; it is not opened")
        if len(shape) != 1 or not _is_count(shape[0]) or not isinstance(entry["blake2b"], str):
            raise IndexCorruptError(f"{file} lists {name!r} of shape {shape!r}, which no index has; it is not opened")
        if entry["bytes"] != HEADER_BYTES + shape[0] * np.dtype(dtype).itemsize:
            raise IndexCorruptError(f"{file} lists {name!r} with a size that is not its shape's; it is not opened")


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 1 << 48


def open_arrays(path: Path, manifest: Manifest) -> dict[str, Array]:
    """The generation's arrays, memory-mapped read-only; sizes and headers are checked, contents are not."""
    folder = path / manifest.folder
    try:
        descriptor = open_folder(folder)
    except FileNotFoundError:
        raise IndexCorruptError(f"{folder} is missing; build the index again") from None
    except OSError as error:
        raise IndexCorruptError(f"{folder} cannot be read: {error.strerror}") from None
    try:
        return {
            name.removesuffix(".npy"): _open_array(folder / name, entry, descriptor)
            for name, entry in manifest.files.items()
        }
    finally:
        os.close(descriptor)


def _open_array(file: Path, entry: Mapping[str, Any], folder: int) -> Array:
    dtype, [length] = np.dtype(entry["dtype"]), entry["shape"]
    try:
        with open_regular(Path(file.name), folder=folder) as opened:
            size = os.fstat(opened.fileno()).st_size
            if size != entry["bytes"]:
                raise IndexCorruptError(
                    f"{file} has {size} bytes where {entry['bytes']} were written; build the index again"
                )
            if opened.read(HEADER_BYTES) != _header(dtype, length):
                raise IndexCorruptError(f"{file} has a damaged header; build the index again")
            return np.asarray(np.memmap(opened, dtype, "r", HEADER_BYTES, (length,)))
    except FileNotFoundError:
        raise IndexCorruptError(f"{file} is missing; build the index again") from None
    except OSError as error:
        raise IndexCorruptError(f"{file} cannot be read: {error.strerror}") from None


def open_latest(path: Path) -> tuple[Manifest, list[dict[str, Array]]]:
    """The current manifest and its segments' arrays, even while a writer puts a newer generation in their place."""
    manifest = read_manifest(path)
    while True:
        try:
            segments = [manifest] if manifest.base is None else [manifest.base, manifest]
            return manifest, [open_arrays(path, segment) for segment in segments]
        except IndexCorruptError:
            newer = read_manifest(path)
            if newer.generation == manifest.generation:
                raise
            manifest = newer


def verify(path: Path) -> list[str]:
    """Read every byte and compare checksums; returns the damaged files."""
    manifest, _ = open_latest(path)
    segments = [manifest] if manifest.base is None else [manifest.base, manifest]
    files = {
        path / segment.folder / name: entry["blake2b"] for segment in segments for name, entry in segment.files.items()
    }
    try:
        with ThreadPoolExecutor() as pool:
            digests = list(pool.map(file_digest, files))
    except FileNotFoundError:
        return verify(path)  # a writer replaced this generation, or else opening says what is missing
    pairs = zip(files.items(), digests, strict=True)
    return [str(file) for (file, written), digest in pairs if digest != written]


class Writer:
    """One generation under construction. Use as a context: leaving it without `commit` leaves no trace."""

    def __init__(self, path: Path):
        self.path = path
        self.old: Manifest | None = None
        with suppress(IndexMissingError, IndexCorruptError, IndexVersionError):
            self.old = read_manifest(path)
        self.generation = self.old.generation + 1 if self.old else _next_generation(path)
        self.folder = path / f"generation-{self.generation:06d}"

    def __enter__(self) -> Writer:
        # Beside a manifest that cannot be read, no folder is known to be a killed writer's: all stay until the commit.
        if self.old is not None or not (self.path / MANIFEST).exists():
            _remove_strays(self.path, self.old)
        _remove_temporaries(self.path)
        self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._committed():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _committed(self) -> bool:
        try:
            return read_manifest(self.path).generation == self.generation
        except OrienteerError:
            return False

    def array(self, name: str, dtype: DTypeLike) -> ArrayWriter:
        return ArrayWriter(self.folder / f"{name}.npy", np.dtype(dtype))

    def write(self, name: str, array: Array) -> None:
        with self.array(name, array.dtype) as out:
            out.append(array)

    def commit(self, settings: dict[str, Any], counts: dict[str, int], base: Manifest | None = None) -> Manifest:
        """Makes the generation the index's; with `base`, the delta of that older generation, which stays."""
        names = sorted(file.name for file in self.folder.glob("*.npy"))
        layouts = [_layout(self.folder / name) for name in names]  # one after another: see `_layout`
        with ThreadPoolExecutor() as pool:
            contents = list(pool.map(lambda name: _flushed(self.folder / name), names))
        entries = [layout | content for layout, content in zip(layouts, contents, strict=True)]
        manifest = Manifest(self.generation, settings, counts, dict(zip(names, entries, strict=True)), base)
        _sync_folder(self.folder)
        raw: dict[str, Any] = {
            "format": FORMAT, "version": VERSION if base is None else SEGMENTED, "generation": manifest.generation,
            "settings": settings, "counts": counts, "files": manifest.files,
        }  # fmt: skip
        if base is not None:
            raw["base"] = {"generation": base.generation, "counts": base.counts, "files": base.files}
        raw["checksum"] = _digest(_canonical(raw))
        temporary = self.path / TEMPORARY.replace("*", secrets.token_hex(8))
        try:
            with create_new(temporary) as file:
                file.write(_rendered(raw))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / MANIFEST)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.path)
        _remove_strays(self.path, manifest)
        return manifest


class ArrayWriter:
    """A one-dimensional .npy file that grows; its header is written again on close."""

    def __init__(self, file: Path, dtype: np.dtype[Any]):
        self.dtype, self.length = dtype, 0
        self._file = create_new(file)
        self._file.write(_header(dtype, 0))

    def append(self, array: Array) -> None:
        # Not `tofile`, whose error on a full disk does not say that the disk is full.
        self._file.write(np.ascontiguousarray(array, self.dtype).data)
        self.length += array.size

    def append_bytes(self, data: bytes) -> None:
        self._file.write(data)
        self.length += len(data) // self.dtype.itemsize

    def close(self) -> None:
        if not self._file.closed:
            self._file.seek(0)
            self._file.write(_header(self.dtype, self.length))
            self._file.close()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(OSError):
                self._file.close()


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """The only writer of the index at `path`; a second one is refused at once."""
    _refuse_strange_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open_lock(path / LOCK)
    except FileExistsError:
        raise IndexMissingError(f"{path} is a file; name a folder for the index") from None
    except OSError as error:
        raise OrienteerError(f"cannot write an index at {path}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IndexLockedError(f"another process is writing {path}; try again when it is done") from None
        try:
            with Writer(path) as writer:
                yield writer
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise OrienteerError(
                    f"no space left to write the index at {path}; the previous index, if any, is untouched"
                ) from None
            if error.errno in (errno.EIO, errno.EROFS):
                raise OrienteerError(
                    f"the disk failed while the index at {path} was written ({error.strerror}); "
                    "the previous index, if any, is untouched"
                ) from None
            raise


def _refuse_strange_folder(path: Path) -> None:
    """Every index has a lock file; a damaged manifest without one is another program's file, not to be replaced."""
    if (path / MANIFEST).exists() and not (path / LOCK).exists():
        try:
            read_manifest(path)
        except IndexCorruptError:
            raise IndexCorruptError(
                f"{path / MANIFEST} is not an Orienteer index manifest; name another folder for the index"
            ) from None
        except IndexVersionError:
            pass


def file_digest(file: Path) -> str:
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, _blake2b).hexdigest()


def _header(dtype: np.dtype[Any], length: int) -> bytes:
    """The first bytes of every .npy file, always `HEADER_BYTES` of them."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": (length,)})
    room = HEADER_BYTES - len(npy.magic(1, 0)) - 2
    return npy.magic(1, 0) + room.to_bytes(2, "little") + text.ljust(room - 1).encode() + b"\n"


def _layout(file: Path) -> dict[str, Any]:
    """Type and shape of an array. One thread only: NumPy parses headers with `ast`, not guarded in CPython 3.11."""
    array = np.load(file, mmap_mode="r", allow_pickle=False)
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _flushed(file: Path) -> dict[str, Any]:
    """Size and digest of a file, which is flushed to the disk: it may have been changed through a map."""
    with open_regular(file) as opened:
        os.fsync(opened.fileno())
    return {"bytes": file.stat().st_size, "blake2b": file_digest(file)}


def _remove_strays(path: Path, keep: Manifest | None) -> None:
    kept = [manifest.folder for manifest in (keep, keep and keep.base) if manifest is not None]
    for folder in path.glob("generation-*"):
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_temporaries(path: Path) -> None:
    """Manifests that killed writers did not come to rename; also under the name that older versions gave them."""
    for temporary in (*path.glob(TEMPORARY), path / f"{MANIFEST}.new"):
        with suppress(OSError):
            temporary.unlink()


def _next_generation(path: Path) -> int:
    numbers = [folder.name.rpartition("-")[2] for folder in path.glob("generation-*")]
    return max((int(number) for number in numbers if number.isdigit()), default=0) + 1


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _blake2b() -> Any:
    return hashlib.blake2b(digest_size=16)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _canonical(raw: dict[str, Any]) -> bytes:
    return json.dumps(raw, sort_keys=True).encode()


def _rendered(raw: dict[str, Any]) -> bytes:
    """A manifest's file, byte for byte: what differs from it in any way is damaged."""
    return json.dumps(raw, indent=1).encode()
