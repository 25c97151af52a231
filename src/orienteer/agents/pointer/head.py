"""From encoded pieces to scores of every refinement, of stopping, and of what is to be gained; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.pointer.linear import Floats, linear
from orienteer.agents.pointer.rendering import SOURCES


@dataclass(frozen=True, slots=True)
class Scores:
    """slots: [terms, slots], stop and the refinements' share one softmax; gain: what the best one is to bring."""

    slots: Floats
    stop: float
    gain: float


class Head:
    """The model's upper part, as `PointerModel` has it."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._layers = layers_of(tensors, ("term", "moment", "mix", "slots", "whole", "outcome"))

    def __call__(
        self,
        states: Floats,  # [L, width]
        occurrences: NDArray[np.int16],  # [N, 3], sorted
        terms: Floats,  # [T, term features]
        moment: Floats,  # [moment features]
        grammar: Floats,  # [operators]
    ) -> Scores:
        pooled = np.concatenate([pool(states, occurrences, len(terms)), terms], 1)
        around = np.concatenate([states[0], moment])[None]
        hidden = relu(self._linear("term", pooled) + self._linear("moment", around))
        hidden = relu(self._linear("mix", hidden))  # [T, hidden]
        best = hidden.max(0) if len(terms) else np.zeros(hidden.shape[1], np.float32)
        whole = relu(self._linear("whole", np.concatenate([around[0], grammar, best])[None]))
        [[stop, gain]] = self._linear("outcome", whole)
        return Scores(self._linear("slots", hidden), float(stop), float(gain))

    def _linear(self, name: str, x: Floats) -> Floats:
        return linear(x, *self._layers[name])


def layers_of(tensors: Mapping[str, NDArray[Any]], names: Iterable[str]) -> dict[str, tuple[Floats, Floats]]:
    return {
        name: (np.ascontiguousarray(tensors[f"{name}.weight"].T, np.float32), tensors[f"{name}.bias"]) for name in names
    }


def pool(states: Floats, occurrences: NDArray[np.int16], terms: int) -> Floats:
    """The mean state of each term's pieces in each source, side by side [terms, sources · width]; 0 where none."""
    width = states.shape[1]
    out = np.zeros((terms * len(SOURCES), width), np.float32)
    if len(occurrences):
        groups = occurrences[:, 0].astype(np.int64) * len(SOURCES) + occurrences[:, 1]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        counts = np.diff(starts, append=len(groups))
        sums = np.add.reduceat(states[occurrences[:, 2]], starts, axis=0)
        out[groups[starts]] = sums / counts[:, None].astype(np.float32)
    return out.reshape(terms, len(SOURCES) * width)


def relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))
