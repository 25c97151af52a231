"""Opens files in folders that a stranger may have filled: regular files only, never a pipe, a device or a planted link.

Reading never blocks: a FIFO is opened without waiting for its writer, and refused. Creating never follows a link and
never touches a file that is already there.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import Any

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class IrregularFileError(OSError):
    """A link, pipe, device or folder where a regular file was expected."""

    def __init__(self, path: Path | str, found: str):
        super().__init__(errno.EINVAL, f"it is {found}, expected a regular file", str(path))


def open_regular(path: Path, *, follow_links: bool = False, folder: int | None = None) -> BufferedReader:
    """Opens a regular file for reading; `folder` is the descriptor of the folder that a relative `path` is in."""
    return _checked(path, _READ | (0 if follow_links else os.O_NOFOLLOW), "rb", folder)  # type: ignore[no-any-return]


def read_regular(path: Path, largest: int, *, follow_links: bool = False) -> bytes:
    """The whole content of a regular file of at most `largest` bytes."""
    with open_regular(path, follow_links=follow_links) as file:
        if (size := os.fstat(file.fileno()).st_size) > largest:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, expected at most {largest:,}", str(path))
        return file.read(size)


def create_new(path: Path) -> BufferedRandom:
    """Creates a file that must not be there yet, for reading and writing."""
    return _checked(path, _CREATE | os.O_EXCL, "w+b")  # type: ignore[no-any-return]


def open_lock(path: Path) -> BufferedRandom:
    """Opens a lock file, which is made where there is none."""
    return _checked(path, _CREATE, "r+b")  # type: ignore[no-any-return]


def open_folder(path: Path) -> int:
    """The descriptor of a folder that is no link."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            raise IrregularFileError(path, "a symbolic link") from None
        raise


def _checked(path: Path, flags: int, mode: str, folder: int | None = None) -> Any:
    try:
        descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise IrregularFileError(path, "a symbolic link") from None
        if error.errno == errno.ENXIO:
            raise IrregularFileError(path, "a socket or a pipe") from None
        raise
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise IrregularFileError(path, _KINDS.get(stat.S_IFMT(kind), "a device"))
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link"}
