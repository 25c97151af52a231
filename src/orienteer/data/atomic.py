"""Atomic files: written under another name, flushed to disk, renamed. A kill leaves the old file or the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orienteer.data.compression import compressed
from orienteer.errors import WriteError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A path to write to; its file takes its place at `path` when the block ends, and is removed if the block fails.

    The other name is of this call alone, so that several may write the same path at one time: the last one wins.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}; free the disk or choose another") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def atomic_write(path: Path, data: bytes | str | Iterable[bytes]) -> None:
    """Writes a file, compressed as its suffix says; its folder is made where there is none."""
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    with suppress(OSError):  # opening the file gives the better message
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial, partial.open("xb") as file, compressed(file, path) as out:
        for part in [data] if isinstance(data, bytes) else data:
            out.write(part)
