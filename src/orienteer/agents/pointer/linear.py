"""A linear map for the head: many zeros, few rows.

NumPy's product would wake a thread on every core and leave them spinning, in the way of the encoder's own threads:
twenty times the processor time of the sums themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import kernel

Floats = NDArray[np.float32]


@kernel
def linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """x [N, inner] · weight [inner, outer] + bias [outer]; zeros in x cost nothing."""
    rows, inner = x.shape
    outer = weight.shape[1]
    out = np.empty((rows, outer), np.float32)
    for row in range(rows):
        for column in range(outer):
            out[row, column] = bias[column]
        for place in range(inner):
            value = x[row, place]
            if value != 0:
                for column in range(outer):
                    out[row, column] += value * weight[place, column]
    return out
