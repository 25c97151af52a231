"""How every kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compiled on first use, kept on disk; division by zero is a float's, no bounds checks, strict IEEE sums."""
    try:
        return cast(F, njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # neither this folder nor the user's cache can be written: nowhere to keep it
        return cast(F, njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """A small function that disappears into the kernels that call it."""
    return cast(F, njit(inline="always", error_model="numpy")(function))
