"""Search trees as arrays, many in a batch, with the settings of a search and what is read off the trees after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.errors import OrienteerError

Unvisited = Literal["worst", "parent"]


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """MuZero's constants; where the paper does not report a tuned value, the default of the authors' code.

    simulations   per search
    children      actions per node at most, the likeliest
    unvisited     an unvisited action has the lowest value of the tree (MuZero), or its parent's value
    least_range   Q is normalised by max(max Q - min Q, least_range): smaller differences are noise
    noise_share   of Dirichlet noise in the root's priors, in training
    gumbel        actions considered at the root by Gumbel's sequential halving; 0: PUCT there too
    """

    simulations: int = 100
    children: int = 100
    discount: float = 0.9
    pb_c_base: float = 19652.0
    pb_c_init: float = 1.25
    unvisited: Unvisited = "worst"
    least_range: float = 0.0
    noise_alpha: float = 0.15
    noise_share: float = 0.2
    gumbel: int = 0
    gumbel_visit: float = 50.0
    gumbel_scale: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("simulations", 0), ("children", 1), ("gumbel", 0)):
            if getattr(self, name) < least:
                raise OrienteerError(f"{name} = {getattr(self, name)}; expected {least} or more")
        if not 0 < self.discount <= 1:
            raise OrienteerError(f"a discount of {self.discount}; expected more than 0 and at most 1")
        if not 0 <= self.noise_share < 1 or self.noise_alpha <= 0:
            raise OrienteerError("noise needs an alpha above 0 and a share from 0 to less than 1")

    def factors(self) -> NDArray[np.float64]:
        """(log((N + base + 1) / base) + init) · √N for every number N of visits to a parent.

        The reference search of the tests reads the same table, so that no two logarithms can differ.
        """
        base, init = self.pb_c_base, self.pb_c_init
        return np.array([(log((n + base + 1) / base) + init) * sqrt(n) for n in range(self.simulations + 2)])

    def halving(self, count: int) -> list[int]:
        """For each simulation, the visit count of the root's action to take next (sequential halving).

        All of the `count` considered actions share the first part of the simulations, the better half of them the
        second, and so on down to two.
        """
        if count <= 1:
            return list(range(self.simulations))
        rounds = (count - 1).bit_length()
        tried = [0] * count
        order: list[int] = []
        left = count
        while len(order) < self.simulations:
            for _ in range(max(1, self.simulations // (rounds * left))):
                order += tried[:left]
                tried[:left] = [visits + 1 for visits in tried[:left]]
            left = max(2, left // 2)
        return order[: self.simulations]


Int32s = NDArray[np.int32]
Float64s = NDArray[np.float64]
NONE = -1


class Trees(NamedTuple):
    """B trees of at most N nodes with at most C children each.

    size                            [B] nodes so far
    parent, child_index             [B, N] a node's parent, and which of its children the node is
    visits, value_sum, reward       [B, N]
    num_children, num_expanded      [B, N] children, and how many of them (the first ones) have a node
    child_action, child_prior       [B, N, C]
    child_node                      [B, N, C] -1 until the child is expanded
    child_visits, child_q           [B, N, C]
    child_edge                      [B, N, C] the child's index in the model's `Expansion`
    min_q, max_q                    [B] the bounds of Q in a tree
    """

    size: Int32s
    parent: Int32s
    child_index: Int32s
    visits: Int32s
    value_sum: Float64s
    reward: Float64s
    num_children: Int32s
    num_expanded: Int32s
    child_action: Int32s
    child_prior: NDArray[np.float32]
    child_node: Int32s
    child_visits: Int32s
    child_q: Float64s
    child_edge: Int32s
    min_q: Float64s
    max_q: Float64s


class SearchResult:
    """The trees of a search, and what they say of their roots.

    scores      [B, C] log prior plus Gumbel noise of the root's children
    estimates   [B] the model's value of each root before any search
    """

    def __init__(self, trees: Trees, scores: Float64s, estimates: Float64s, settings: SearchSettings) -> None:
        self.trees, self.scores, self.estimates, self.settings = trees, scores, estimates, settings

    def __len__(self) -> int:
        return len(self.trees.size)

    def actions(self, tree: int) -> Int32s:
        """The root's actions [children], in the order of its children."""
        return self.trees.child_action[tree, 0, : self.trees.num_children[tree, 0]]

    def visits(self, tree: int) -> Int32s:
        return self.trees.child_visits[tree, 0, : self.trees.num_children[tree, 0]]

    def priors(self, tree: int) -> NDArray[np.float32]:
        return self.trees.child_prior[tree, 0, : self.trees.num_children[tree, 0]]

    def value(self, tree: int) -> float:
        """The mean of all values backed up to the root; the model's own where nothing was searched."""
        visits = self.trees.visits[tree, 0]
        return float(self.trees.value_sum[tree, 0] / visits if visits else self.estimates[tree])

    def gumbel_scores(self, tree: int) -> Float64s:
        """What Gumbel's final choice maximises [children]: score plus σ(completed Q)."""
        return self._scaled_q(tree) + self.scores[tree, : self.trees.num_children[tree, 0]]

    def improved_policy(self, tree: int, log_priors: Float64s) -> Float64s:
        """softmax(logits + σ(completed Q)) [children]: Gumbel MuZero's policy target."""
        logits = log_priors + self._scaled_q(tree)
        shares = np.exp(logits - logits.max())
        policy: Float64s = shares / shares.sum()
        return policy

    def _scaled_q(self, tree: int) -> Float64s:
        trees, settings = self.trees, self.settings
        visits = self.visits(tree)
        low, high = trees.min_q[tree], trees.max_q[tree]
        q = np.where(visits > 0, trees.child_q[tree, 0, : len(visits)], self.value(tree))
        if high > low:
            shares = (q - low) / max(high - low, settings.least_range)
        else:
            shares = q if settings.least_range == 0 else np.zeros_like(q)
        scaled: Float64s = (settings.gumbel_visit + visits.max(initial=0)) * settings.gumbel_scale * shares
        return scaled

    def best_child(self, tree: int) -> int:
        """The index of the child to take without randomness; the likeliest where nothing was searched."""
        visits = self.visits(tree)
        if not self.settings.gumbel or not visits.any():
            return int(np.argmax(visits))
        scores = np.where(visits == visits.max(), self.gumbel_scores(tree), -np.inf)
        return int(np.argmax(scores))

    def depths(self, tree: int) -> Iterator[int]:
        """The depth of each node."""
        depth = [0]
        for node in range(1, int(self.trees.size[tree])):
            depth.append(depth[self.trees.parent[tree, node]] + 1)
        return iter(depth)


def empty_trees(batch: int, nodes: int, children: int) -> Trees:
    def ints(*shape: int) -> Int32s:
        return np.zeros(shape, np.int32)

    wide = (batch, nodes, children)
    return Trees(
        np.ones(batch, np.int32), np.full((batch, nodes), NONE, np.int32), ints(batch, nodes), ints(batch, nodes),
        np.zeros((batch, nodes)), np.zeros((batch, nodes)), ints(batch, nodes), ints(batch, nodes),
        # Entries beyond the number of children are never read.
        np.empty(wide, np.int32), np.empty(wide, np.float32), np.empty(wide, np.int32), np.empty(wide, np.int32),
        np.empty(wide), np.empty(wide, np.int32),
        np.full(batch, np.inf), np.full(batch, -np.inf),
    )  # fmt: skip
