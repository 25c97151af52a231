"""Linear layers without torch, for small heads: few rows, many zeros.

NumPy's product would wake a BLAS thread on every core and leave them spinning, which slows CTranslate2's own threads:
twenty times the CPU time of the sums themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import kernel

Float32s = NDArray[np.float32]
Layer = tuple[Float32s, Float32s]  # weight [inner, outer], bias [outer]


@kernel
def linear(x: Float32s, weight: Float32s, bias: Float32s) -> Float32s:
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


def relu(x: Float32s) -> Float32s:
    return np.maximum(x, np.float32(0))


def load_layers(tensors: Mapping[str, NDArray[Any]], names: Iterable[str]) -> dict[str, Layer]:
    """Layers by name, from tensors as torch's `nn.Linear` stores them."""
    return {
        name: (np.ascontiguousarray(tensors[f"{name}.weight"].T, np.float32), tensors[f"{name}.bias"]) for name in names
    }
