"""Plain, gzip, xz and zstd files as blocks of bytes, in memory that does not grow with the file."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, Literal, cast

import zstandard

from orienteer.errors import DataError

Compression = Literal["gzip", "xz", "zstd"]

SUFFIXES: dict[str, Compression] = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
# No UTF-8 text starts with any of these. After zstd's own come its skippable frames, which may stand first.
_MAGIC: dict[Compression, tuple[bytes, ...]] = {
    "gzip": (b"\x1f\x8b",),
    "xz": (b"\xfd7zXZ\x00",),
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16))),
}

# A thread that decompresses waits for the interpreter's lock after every call: blocks are few and large.
BLOCK = 16 << 20
_READ = 4 << 20
_PLAIN_BLOCK = 1 << 20

_END = b"the end that orienteer appends"


def compression_of(path: Path) -> Compression | None:
    """What the name says: `.gz`, `.xz`, `.zst`, or nothing."""
    return SUFFIXES.get(path.suffix.lower())


def plain_name(path: Path) -> str:
    """The name without the suffix of its compression: `a.jsonl` for `a.jsonl.xz`."""
    return path.stem if compression_of(path) else path.name


def read_blocks(path: Path) -> Generator[bytes, None, None]:
    """The decompressed bytes of a file, at most `BLOCK` at a time; content decides, the name is checked."""
    kind: Compression | None = None
    try:
        with path.open("rb") as raw:
            head = raw.peek(8)[:8]
            kind = _compression_by_content(path, head)
            match kind:
                case "gzip" | "xz":
                    yield from _decompress(raw, kind)
                case "zstd":
                    yield from _decompress_zstd(raw)
                case None:
                    while block := raw.read(_PLAIN_BLOCK):
                        yield block
    except EOFError:
        raise _damaged(path, kind, "it ends in the middle of its data") from None
    except (lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise _damaged(path, kind, str(error)) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> DataError:
    """The one message for what the operating system refuses."""
    reason = getattr(error, "strerror", None) or str(error)
    return DataError(f"{shown(path)}: cannot be read: {reason}; check the path and its permissions")


def shown(path: Path) -> str:
    """A path as it can be printed, even where its name is not UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _compression_by_content(path: Path, head: bytes) -> Compression | None:
    found = next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), None)
    named = compression_of(path)
    if named and found != named:
        if any(start.startswith(head) for start in _MAGIC[named]):
            raise _damaged(path, named, f"it has only {len(head)} bytes")
        raise DataError(
            f"{shown(path)}: the name says {named}, the content is {found or 'not compressed'}; "
            "give it the suffix of what it is"
        )
    return found


def _damaged(path: Path, kind: Compression | None, detail: str) -> DataError:
    return DataError(f"{shown(path)}: the {kind} file is cut short or damaged: {detail}; copy or download it again")


def _decompress(raw: BinaryIO, kind: Literal["gzip", "xz"]) -> Generator[bytes, None, None]:
    """gzip or xz: one stream after another, until the file ends where a stream does."""
    data = raw.read(_READ)
    while data:
        stream = _GzipStream() if kind == "gzip" else lzma.LZMADecompressor(lzma.FORMAT_XZ)
        while not stream.eof:
            if stream.needs_input and not data and not (data := raw.read(_READ)):
                raise EOFError
            block = stream.decompress(data, BLOCK)
            data = b""
            if block:
                yield block
        # Writers may pad with zeros between and after streams.
        data = stream.unused_data.lstrip(b"\0")
        while not data and (more := raw.read(_READ)):
            data = more.lstrip(b"\0")


class _GzipStream:
    """zlib's object with the manners of lzma's: it keeps the input it could not use yet."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


def _decompress_zstd(raw: BinaryIO) -> Generator[bytes, None, None]:
    """zstd, whose reader ends without a word inside a frame that was cut.

    So a frame of our own follows the file's last: what does not end in it was cut short.
    """
    reader = zstandard.ZstdDecompressor().stream_reader(
        cast(BinaryIO, _Followed(raw)), read_size=_READ, read_across_frames=True
    )
    held = b""
    while block := reader.read(BLOCK):
        held += block
        if ready := held[: -len(_END)]:
            yield ready
        held = held[-len(_END) :]
    if held != _END:
        raise EOFError


class _Followed:
    """A file followed by the frame that stands for its end."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._rest = zstandard.ZstdCompressor().compress(_END)

    def read(self, size: int = -1) -> bytes:
        if data := self._raw.read(size):
            return data
        data, self._rest = self._rest, b""
        return data


@contextmanager
def compressed(raw: BinaryIO, path: Path) -> Generator[BufferedIOBase | BinaryIO, None, None]:
    """What is written here reaches `raw` compressed as the name of `path` says; the same bytes every time."""
    match compression_of(path):
        case "gzip":
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
                yield out
        case "xz":
            with lzma.LZMAFile(raw, "wb") as out:
                yield out
        case "zstd":
            compressor = zstandard.ZstdCompressor(level=10, write_checksum=True)
            with compressor.stream_writer(raw, closefd=False) as out:
                yield cast(BinaryIO, out)
        case None:
            yield raw
