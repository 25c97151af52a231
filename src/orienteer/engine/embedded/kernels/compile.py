"""How every kernel is compiled: by numba, which is imported when the first of them is called.

Importing numba and what its compiled kernels need takes half a second, longer than the one search of a short command.
Until the first call a kernel is a `_Waiting`; then all of them become numba's, in every module that has kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])


class _Waiting:
    """A kernel, or a function inlined into kernels, before numba is imported."""

    def __init__(self, function: Callable[..., object], inline: bool):
        self.function, self.inline = function, inline
        self.compiled: Callable[..., object] | None = None

    def __call__(self, *arguments: Any) -> object:
        if self.compiled is None:
            load()
        assert self.compiled is not None
        return self.compiled(*arguments)


_waiting: list[_Waiting] = []
_lock = RLock()


def kernel(function: F) -> F:
    """Compiled on first use, kept on disk; division by zero is a float's, no bounds checks, strict IEEE sums."""
    return cast(F, _decorated(function, inline=False))


def inlined(function: F) -> F:
    """A small function that disappears into the kernels that call it."""
    return cast(F, _decorated(function, inline=True))


def is_loaded() -> bool:
    """Whether calling a kernel costs no import."""
    return "numba" in sys.modules and not _waiting


def load() -> None:
    """Import numba, and make every kernel so far one of its own."""
    with _lock:
        waiting = list(_waiting)
        for each in waiting:
            each.compiled = _compiled(each.function, each.inline)
        for each in waiting:
            _resolve(cast(Any, each.function).__globals__)
        del _waiting[: len(waiting)]


def _decorated(function: Callable[..., object], inline: bool) -> Callable[..., object]:
    if "numba" in sys.modules:
        load()
        _resolve(cast(Any, function).__globals__)  # kernels of other modules that this one calls
        return _compiled(function, inline)
    each = _Waiting(function, inline)
    _waiting.append(each)
    return each


def _resolve(names: dict[str, Any]) -> None:
    for name, value in list(names.items()):
        if isinstance(value, _Waiting) and value.compiled is not None:
            names[name] = value.compiled


def _compiled(function: Callable[..., object], inline: bool) -> Callable[..., object]:
    from numba import njit

    if inline:
        return cast(Callable[..., object], njit(inline="always", error_model="numpy")(function))
    try:
        return cast(Callable[..., object], njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # neither this folder nor the user's cache can be written: nowhere to keep it
        return cast(Callable[..., object], njit(nogil=True, error_model="numpy")(function))
