"""Products of a few rows with a matrix, the same to the bit whatever rows stand beside.

A library's product sums in another order for another number of rows; then what an agent does would depend on how many
sessions are played beside its own. Here one and the same inner loop makes four sums for each of two rows, also where
one row is left and stands for both. A block of the matrix stays in the nearest cache while the rows go through it,
which is what makes many sessions together cheap. And no thread is woken.
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
    """A kernel whose sums are made in the order that suits the processor, always the same one; it meets no NaN."""
    allowed = {"contract", "nnan", "nsz", "reassoc"}
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
    # Looked up, not computed: a compiler that sees the two rows coincide would sum the last one in another way.
    second = np.minimum(np.arange(1, rows + 1), rows - 1)
    for start in range(0, outer, block):
        end = min(outer, start + block)
        for row in range(0, rows, 2):
            two = second[row]
            for place in range(start, end, 4):
                a = b = c = d = np.float32(0)
                e = f = g = h = np.float32(0)
                for k in range(inner):
                    u, v = x[row, k], x[two, k]
                    m, n = matrix[place, k], matrix[place + 1, k]
                    a, e = a + u * m, e + v * m
                    b, f = b + u * n, f + v * n
                    m, n = matrix[place + 2, k], matrix[place + 3, k]
                    c, g = c + u * m, g + v * m
                    d, h = d + u * n, h + v * n
                out[two, place], out[two, place + 1] = e + bias[place], f + bias[place + 1]
                out[two, place + 2], out[two, place + 3] = g + bias[place + 2], h + bias[place + 3]
                out[row, place], out[row, place + 1] = a + bias[place], b + bias[place + 1]
                out[row, place + 2], out[row, place + 3] = c + bias[place + 2], d + bias[place + 3]


@summing
def powers(x: Floats) -> None:
    """e to the power of each, in place; between e^-80 and e^80.

    A polynomial of degree six between two powers of two, right to some units in the last place: a loop over the
    library's function is eight times slower.
    """
    bits = np.empty(x.size, np.int32)
    for k in range(x.size):
        power = min(max(x[k], np.float32(-80)), np.float32(80)) * np.float32(1.4426950408889634)
        whole = np.floor(power + np.float32(0.5))
        rest = power - whole
        y = np.float32(1.5403530e-4) * rest + np.float32(1.3333558e-3)
        y = y * rest + np.float32(9.6181291e-3)
        y = y * rest + np.float32(5.5504109e-2)
        y = y * rest + np.float32(2.4022651e-1)
        y = y * rest + np.float32(6.9314718e-1)
        x[k] = y * rest + np.float32(1)
        bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
    scales = bits.view(np.float32)
    for k in range(x.size):
        x[k] *= scales[k]


@summing
def highest(x: Floats) -> np.float32:
    most: np.float32 = x[0]
    for k in range(x.size):
        most = max(most, x[k])
    return most
