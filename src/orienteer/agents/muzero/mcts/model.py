"""The world that is planned in, as the search asks for it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


class Expansion(NamedTuple):
    """What is known of n new nodes.

    reward   [n] of the action that led there; 0 at a root
    value    [n]
    actions  [n, children], the first `counts` of each row, by prior, highest first
    priors   [n, children]; they need not sum to 1
    counts   [n]; 0 where nothing can follow
    """

    reward: Floats
    value: Floats
    actions: Ints
    priors: NDArray[np.float32]
    counts: Ints


class Model(Protocol):
    """States are the model's own, kept by (tree, node); what it says of a node depends on that node alone."""

    def roots(self) -> Expansion:
        """The root of every tree, node 0."""
        ...

    def step(self, trees: Ints, parents: Ints, edges: Ints, actions: Ints, nodes: Ints) -> Expansion:
        """New nodes, each by an action from a parent of the same tree; `edges` are the actions' places there."""
        ...
