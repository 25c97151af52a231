"""How every kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compiled on first use, kept on disk; division by zero is a float's, no bounds checks, strict IEEE sums."""
    return njit(cache=True, nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """A small function that disappears into the kernels that call it."""
    return njit(inline="always", error_model="numpy")(function)  # type: ignore[no-any-return]
