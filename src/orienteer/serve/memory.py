"""Bytes that a session holds in memory, and a heap that gives back what is free."""

from __future__ import annotations

import ctypes
import gc
import sys
from dataclasses import fields, is_dataclass
from typing import Any

_SHARED = (type, type(None), bool)
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # of glibc's mallopt
_ARENAS = 2
_LARGE = 1 << 20  # bytes of a block that goes back to the system as soon as it is free


def deep_size(*roots: Any) -> int:
    """Bytes of strings, numbers, containers and dataclasses below the roots, each object once."""
    total, seen, stack = 0, set(), list(roots)
    while stack:
        value = stack.pop()
        if isinstance(value, _SHARED) or id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            stack.extend(value.keys())
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            stack.extend(value)
        elif is_dataclass(value):
            stack.extend(getattr(value, field.name) for field in fields(value))
    return total


def bound_heap() -> None:
    """Before the threads of a server start: few heaps, and large blocks outside them.

    glibc makes up to eight heaps a core and takes ever larger blocks from them. What one thread freed is of no use to
    another then, and a server that loads models and files keeps more than it needs. Elsewhere nothing is done.
    """
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(_ARENA_MAX, _ARENAS)
        mallopt(_MMAP_THRESHOLD, _LARGE)


def freeze_heap() -> None:
    """After a server was made: what is there stays, and the collector need not look at it again.

    It stops every thread while it looks: 100 milliseconds for modules, routes and an index, 2 for all that comes later.
    """
    gc.collect()
    gc.freeze()
    trim_heap()


def trim_heap() -> None:
    """Gives back what is free, as after a model was loaded."""
    if (malloc_trim := _glibc("malloc_trim")) is not None:
        malloc_trim(0)


def _glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
