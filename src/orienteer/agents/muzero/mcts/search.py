"""MuZero's tree search for a batch of trees: selection, expansion and backup, one call of the model per simulation.

Children are sorted by prior, highest first, so the expanded ones are always the first few, and only one unexpanded
child, the next, can be the best: a node with a hundred children costs no more than those that were visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.mcts.policies import RootNoise, noisy_priors
from orienteer.agents.muzero.mcts.settings import SearchSettings
from orienteer.agents.muzero.mcts.tree import NONE, Float64s, Int32s, SearchResult, Trees, _empty
from orienteer.engine.embedded.kernels.compile import inlined, kernel


class Expansion(NamedTuple):
    """What is known of n new nodes.

    reward   [n] of the action that led there; 0 at a root
    value    [n]
    actions  [n, children], the first `counts` of each row, by prior, highest first
    priors   [n, children]; they need not sum to 1
    counts   [n]; 0 where nothing can follow
    """

    reward: Float64s
    value: Float64s
    actions: Int32s
    priors: NDArray[np.float32]
    counts: Int32s


class Model(Protocol):
    """States are the model's own, kept by (tree, node); what it says of a node depends on that node alone."""

    def roots(self) -> Expansion:
        """The root of every tree, node 0."""
        ...

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        """New nodes, each by an action from a parent of the same tree; `edges` are the actions' places there."""
        ...


def search(
    model: Model,
    settings: SearchSettings,
    noise: Sequence[RootNoise] | None = None,
    roots: Expansion | None = None,
    least: int = 1,
) -> SearchResult:
    """Grows every tree by all simulations; one whose root allows fewer than `least` actions stays a root.

    `roots` are the model's, where the caller has asked for them already.
    """
    found = roots or model.roots()
    result = _planted(found, settings, noise)
    trees, factors = result.trees, settings.factors()
    batch = len(result)
    halving = np.array([
        settings.halving(min(settings.gumbel, int(count))) for count in found.counts
    ], np.int32).reshape(batch, -1)  # fmt: skip
    parents, places, leaves = (np.empty(batch, np.int32) for _ in range(3))
    everyone = np.arange(batch, dtype=np.int32)
    growing = everyone[found.counts >= max(1, least)]
    by_parent = settings.unvisited == "parent"
    nothing = _nothing()
    for simulation in range(settings.simulations if len(growing) else 0):
        fresh = select(
            trees, growing, factors, settings.least_range, by_parent, settings.gumbel, simulation, halving,
            result.scores, settings.gumbel_visit, settings.gumbel_scale, parents, places, leaves,
        )  # fmt: skip
        step = nothing
        if fresh:
            new = growing[leaves[: len(growing)] == NONE] if fresh < len(growing) else growing
            at, place = parents[new], places[new]
            nodes = trees.size[new]
            step = model.step(new, at, trees.child_edge[new, at, place], trees.child_action[new, at, place], nodes)
        grow(trees, growing, leaves, parents, places, *step, settings.discount)
    return result


def _nothing() -> Expansion:
    return Expansion(
        np.zeros(0), np.zeros(0), np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32), np.zeros(0, np.int32)
    )


def _planted(found: Expansion, settings: SearchSettings, noise: Sequence[RootNoise] | None) -> SearchResult:
    batch, nodes = len(found.counts), settings.simulations + 1
    children = max(settings.children, int(found.counts.max(initial=1)), 1)
    trees = _empty(batch, nodes, children)
    scores = np.full((batch, children), -np.inf)
    for tree in range(batch):
        count = int(found.counts[tree])
        mixed, own, order = noisy_priors(found.priors[tree, :count], noise[tree] if noise else RootNoise(), settings)
        scores[tree, :count] = own
        trees.num_children[tree, 0] = count
        trees.child_prior[tree, 0, :count], trees.child_edge[tree, 0, :count] = mixed, order
        trees.child_action[tree, 0, :count] = found.actions[tree, :count][order]
        trees.child_node[tree, 0, :count], trees.child_visits[tree, 0, :count] = NONE, 0
    return SearchResult(trees, scores, found.value, settings)


@inlined
def _share(value: float, low: float, high: float, least: float) -> float:
    if high <= low:
        return value if least == 0 else 0.0
    return (value - low) / max(high - low, least)


@kernel
def select(
    trees: Trees, growing: Int32s, factors: Float64s, least: float, by_parent: bool, gumbel: int, simulation: int,
    halving: Int32s, scores: Float64s, visit: float, scale: float, parents: Int32s, places: Int32s, leaves: Int32s,
) -> int:  # fmt: skip
    """Walks every tree to a child that has no node yet, or to a node where nothing can follow; how many of the first.

    Writes the child's parent and place by tree, and by row of `growing` the node where nothing can follow, -1 for none.
    """
    fresh = 0
    for row in range(growing.size):
        tree = growing[row]
        node = 0
        while True:
            count = trees.num_children[tree, node]
            if count == 0:
                leaves[row] = node
                break
            if node == 0 and gumbel > 0:
                best = _halved(trees, tree, gumbel, halving[tree, simulation], scores, visit, scale, least)
            else:
                best = _best(trees, tree, node, factors, by_parent, least)
            child = trees.child_node[tree, node, best]
            if child < 0:
                parents[tree], places[tree], leaves[row] = node, best, -1
                fresh += 1
                break
            node = child
    return fresh


@kernel
def _best(trees: Trees, tree: int, node: int, factors: Float64s, by_parent: bool, least: float) -> int:
    low, high = trees.min_q[tree], trees.max_q[tree]
    visits, tried, count = trees.visits[tree, node], trees.num_expanded[tree, node], trees.num_children[tree, node]
    factor = factors[visits]
    best, most = 0, -np.inf
    for place in range(tried):
        value = _share(trees.child_q[tree, node, place], low, high, least)
        score = trees.child_prior[tree, node, place] * factor / (1 + trees.child_visits[tree, node, place]) + value
        if score > most:
            best, most = place, score
    if tried < count:
        otherwise = 0.0
        if by_parent and visits > 0:
            otherwise = _share(trees.value_sum[tree, node] / visits, low, high, least)
        score = trees.child_prior[tree, node, tried] * factor / 1 + otherwise
        if score > most:
            best = tried
    return best


@kernel
def _halved(
    trees: Trees, tree: int, gumbel: int, tried: int, scores: Float64s, visit: float, scale: float, least: float
) -> int:
    low, high = trees.min_q[tree], trees.max_q[tree]
    count = min(gumbel, trees.num_children[tree, 0])
    most_visits = 0
    for place in range(count):
        most_visits = max(most_visits, trees.child_visits[tree, 0, place])
    otherwise = 0.0
    if trees.visits[tree, 0] > 0:
        otherwise = _share(trees.value_sum[tree, 0] / trees.visits[tree, 0], low, high, least)
    best, most = -1, -np.inf
    for place in range(count):
        if trees.child_visits[tree, 0, place] != tried:
            continue
        value = otherwise
        if tried > 0:
            value = _share(trees.child_q[tree, 0, place], low, high, least)
        outlook = scores[tree, place] + (visit + most_visits) * scale * value
        if best < 0 or outlook > most:
            best, most = place, outlook
    return best


@kernel
def grow(
    trees: Trees, growing: Int32s, leaves: Int32s, parents: Int32s, places: Int32s,
    reward: Float64s, value: Float64s, actions: Int32s, priors: NDArray[np.float32], counts: Int32s, discount: float,
) -> None:  # fmt: skip
    """Hangs the new nodes into their trees and backs their values up; a node where nothing can follow is worth 0."""
    new = 0
    for row in range(growing.size):
        tree, node, worth = growing[row], leaves[row], 0.0
        if node < 0:
            node = trees.size[tree]
            trees.size[tree] = node + 1
            parent, place = parents[tree], places[tree]
            trees.parent[tree, node], trees.child_index[tree, node] = parent, place
            trees.child_node[tree, parent, place] = node
            # By Gumbel's choice the root's children come in any order; nobody asks how many of them were tried.
            trees.num_expanded[tree, parent] += 1
            trees.reward[tree, node] = reward[new]
            count = counts[new]
            trees.num_children[tree, node] = count
            for child in range(count):
                trees.child_action[tree, node, child] = actions[new, child]
                trees.child_prior[tree, node, child] = priors[new, child]
                trees.child_node[tree, node, child] = -1
                trees.child_visits[tree, node, child] = 0
                trees.child_edge[tree, node, child] = child
            if count > 0:
                worth = value[new]
            new += 1
        while True:
            trees.value_sum[tree, node] += worth
            trees.visits[tree, node] += 1
            if node == 0:
                break
            visits = trees.visits[tree, node]
            q = trees.reward[tree, node] + discount * (trees.value_sum[tree, node] / visits)
            parent, place = trees.parent[tree, node], trees.child_index[tree, node]
            trees.child_q[tree, parent, place] = q
            trees.child_visits[tree, parent, place] = visits
            trees.min_q[tree], trees.max_q[tree] = min(trees.min_q[tree], q), max(trees.max_q[tree], q)
            worth = trees.reward[tree, node] + discount * worth
            node = parent
