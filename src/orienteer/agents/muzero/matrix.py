"""Products of a few rows with a matrix, the same to the bit whatever rows stand beside.

A library's product sums in another order for another number of rows; then what an agent does would depend on how many
sessions are played beside its own. Here one and the same inner loop makes four sums of one row; a block of the matrix
stays in the nearest cache while row after row goes through it, which is what makes many sessions together cheap. And no
thread is woken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
F = TypeVar("F", bound=Callable[..., object])

_CACHED = 4096  # numbers of the matrix in a block: half of a first-level cache


def summing(function: F) -> F:
    """A kernel whose sums are made in the order that suits the processor, always the same one."""
    allowed = {"contract", "reassoc", "nsz"}
    try:
        return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath=allowed)(function))
    except RuntimeError:  # nowhere to keep it
        return cast(F, njit(nogil=True, error_model="numpy", fastmath=allowed)(function))


@summing
def product(x: Floats, matrix: Floats, bias: Floats, out: Floats) -> None:
    """out [n, outer] = x [n, inner] · matrix [outer, inner]ᵀ + bias [outer]; `outer` must be a multiple of 4."""
    rows, inner = x.shape
    outer = matrix.shape[0]
    block = max(4, _CACHED // inner // 4 * 4)
    for start in range(0, outer, block):
        end = min(outer, start + block)
        for row in range(rows):
            for place in range(start, end, 4):
                a = b = c = d = np.float32(0)
                for k in range(inner):
                    value = x[row, k]
                    a += value * matrix[place, k]
                    b += value * matrix[place + 1, k]
                    c += value * matrix[place + 2, k]
                    d += value * matrix[place + 3, k]
                out[row, place] = a + bias[place]
                out[row, place + 1] = b + bias[place + 1]
                out[row, place + 2] = c + bias[place + 2]
                out[row, place + 3] = d + bias[place + 3]
