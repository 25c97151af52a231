"""Many trees searched in lock-step: arrays instead of objects, one call of the model a simulation for all of them.

Children stand by prior, highest first, so those tried are always the first few, and only one untried child, the next,
can be the best: a node with a hundred children costs no more than those that were visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.mcts.model import Expansion, Floats, Ints, Model
from orienteer.agents.muzero.mcts.root_policy import RootNoise, noisy_priors
from orienteer.agents.muzero.mcts.settings import SearchSettings
from orienteer.engine.embedded.kernels.compile import inlined, kernel

NONE = -1


class Trees(NamedTuple):
    """B trees of at most N nodes with at most C children each.

    size                     [B] nodes so far
    parent, place            [B, N] a node's parent, and which of its children the node is
    visits, total, reward    [B, N]
    degree, tried            [B, N] children, and how many of them, the first, have a node
    action, prior, node      [B, N, C] a child's action, prior, and node, -1 until it is tried
    edge_visits, q           [B, N, C]
    edge                     [B, N, C] the child's place as the model gave it
    low, high                [B] the bounds of Q
    """

    size: Ints
    parent: Ints
    place: Ints
    visits: Ints
    total: Floats
    reward: Floats
    degree: Ints
    tried: Ints
    action: Ints
    prior: NDArray[np.float32]
    node: Ints
    edge_visits: Ints
    q: Floats
    edge: Ints
    low: Floats
    high: Floats


class Forest:
    """Trees and the settings that they were grown with.

    scores      [B, C]: what Gumbel's choice starts from
    estimates   [B]: what the model says of each root before any search
    """

    def __init__(self, trees: Trees, scores: Floats, estimates: Floats, settings: SearchSettings) -> None:
        self.trees, self.scores, self.estimates, self.settings = trees, scores, estimates, settings

    def __len__(self) -> int:
        return len(self.trees.size)

    def actions(self, tree: int) -> Ints:
        """The root's actions, in the order of its children."""
        return self.trees.action[tree, 0, : self.trees.degree[tree, 0]]

    def visits(self, tree: int) -> Ints:
        return self.trees.edge_visits[tree, 0, : self.trees.degree[tree, 0]]

    def priors(self, tree: int) -> NDArray[np.float32]:
        return self.trees.prior[tree, 0, : self.trees.degree[tree, 0]]

    def value(self, tree: int) -> float:
        """The mean of all values met from the root on; the model's own where nothing was searched."""
        visits = self.trees.visits[tree, 0]
        return float(self.trees.total[tree, 0] / visits if visits else self.estimates[tree])

    def gumbel_outlooks(self, tree: int) -> Floats:
        """What Gumbel's choice goes by at the end: the score and the value of each child of the root."""
        return self._scaled(tree) + self.scores[tree, : self.trees.degree[tree, 0]]

    def improved_policy(self, tree: int, log_priors: Floats) -> Floats:
        """softmax(logits + σ(completed Q)): Gumbel MuZero's target for the policy."""
        logits = log_priors + self._scaled(tree)
        shares = np.exp(logits - logits.max())
        policy: Floats = shares / shares.sum()
        return policy

    def _scaled(self, tree: int) -> Floats:
        trees, settings = self.trees, self.settings
        visits = self.visits(tree)
        low, high = trees.low[tree], trees.high[tree]
        q = np.where(visits > 0, trees.q[tree, 0, : len(visits)], self.value(tree))
        if high > low:
            shares = (q - low) / max(high - low, settings.least_range)
        else:
            shares = q if settings.least_range == 0 else np.zeros_like(q)
        scaled: Floats = (settings.gumbel_visit + visits.max(initial=0)) * settings.gumbel_scale * shares
        return scaled

    def chosen(self, tree: int) -> int:
        """The place of the child to take where nothing is left to chance; the likeliest where nothing was searched."""
        visits = self.visits(tree)
        if not self.settings.gumbel or not visits.any():
            return int(np.argmax(visits))
        outlooks = np.where(visits == visits.max(), self.gumbel_outlooks(tree), -np.inf)
        return int(np.argmax(outlooks))

    def depths(self, tree: int) -> Iterator[int]:
        """How far each node is from the root."""
        depth = [0]
        for node in range(1, int(self.trees.size[tree])):
            depth.append(depth[self.trees.parent[tree, node]] + 1)
        return iter(depth)


def search(
    model: Model,
    settings: SearchSettings,
    noise: Sequence[RootNoise] | None = None,
    roots: Expansion | None = None,
    least: int = 1,
) -> Forest:
    """Grows every tree by all simulations; one whose root allows fewer than `least` actions stays a root.

    `roots` are the model's, where the caller has asked for them already.
    """
    found = roots or model.roots()
    forest = _planted(found, settings, noise)
    trees, factors = forest.trees, settings.factors()
    batch = len(forest)
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
            forest.scores, settings.gumbel_visit, settings.gumbel_scale, parents, places, leaves,
        )  # fmt: skip
        step = nothing
        if fresh:
            new = growing[leaves[: len(growing)] == NONE] if fresh < len(growing) else growing
            at, place = parents[new], places[new]
            nodes = trees.size[new]
            step = model.step(new, at, trees.edge[new, at, place], trees.action[new, at, place], nodes)
        grow(trees, growing, leaves, parents, places, *step, settings.discount)
    return forest


def _nothing() -> Expansion:
    return Expansion(
        np.zeros(0), np.zeros(0), np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32), np.zeros(0, np.int32)
    )


def _planted(found: Expansion, settings: SearchSettings, noise: Sequence[RootNoise] | None) -> Forest:
    batch, nodes = len(found.counts), settings.simulations + 1
    children = max(settings.children, int(found.counts.max(initial=1)), 1)
    trees = _empty(batch, nodes, children)
    scores = np.full((batch, children), -np.inf)
    for tree in range(batch):
        count = int(found.counts[tree])
        mixed, own, order = noisy_priors(found.priors[tree, :count], noise[tree] if noise else RootNoise(), settings)
        scores[tree, :count] = own
        trees.degree[tree, 0] = count
        trees.prior[tree, 0, :count], trees.edge[tree, 0, :count] = mixed, order
        trees.action[tree, 0, :count] = found.actions[tree, :count][order]
        trees.node[tree, 0, :count], trees.edge_visits[tree, 0, :count] = NONE, 0
    return Forest(trees, scores, found.value, settings)


def _empty(batch: int, nodes: int, children: int) -> Trees:
    def ints(*shape: int) -> Ints:
        return np.zeros(shape, np.int32)

    wide = (batch, nodes, children)
    return Trees(
        np.ones(batch, np.int32), np.full((batch, nodes), NONE, np.int32), ints(batch, nodes), ints(batch, nodes),
        np.zeros((batch, nodes)), np.zeros((batch, nodes)), ints(batch, nodes), ints(batch, nodes),
        # What is not yet a child is never read.
        np.empty(wide, np.int32), np.empty(wide, np.float32), np.empty(wide, np.int32), np.empty(wide, np.int32),
        np.empty(wide), np.empty(wide, np.int32),
        np.full(batch, np.inf), np.full(batch, -np.inf),
    )  # fmt: skip


@inlined
def _share(value: float, low: float, high: float, least: float) -> float:
    if high <= low:
        return value if least == 0 else 0.0
    return (value - low) / max(high - low, least)


@kernel
def select(
    trees: Trees, growing: Ints, factors: Floats, least: float, by_parent: bool, gumbel: int, simulation: int,
    halving: Ints, scores: Floats, visit: float, scale: float, parents: Ints, places: Ints, leaves: Ints,
) -> int:  # fmt: skip
    """Walks every tree to a child that has no node yet, or to a node where nothing can follow; how many of the first.

    Writes the child's parent and place by tree, and by row of `growing` the node where nothing can follow, -1 for none.
    """
    fresh = 0
    for row in range(growing.size):
        tree = growing[row]
        node = 0
        while True:
            count = trees.degree[tree, node]
            if count == 0:
                leaves[row] = node
                break
            if node == 0 and gumbel > 0:
                best = _halved(trees, tree, gumbel, halving[tree, simulation], scores, visit, scale, least)
            else:
                best = _best(trees, tree, node, factors, by_parent, least)
            child = trees.node[tree, node, best]
            if child < 0:
                parents[tree], places[tree], leaves[row] = node, best, -1
                fresh += 1
                break
            node = child
    return fresh


@kernel
def _best(trees: Trees, tree: int, node: int, factors: Floats, by_parent: bool, least: float) -> int:
    low, high = trees.low[tree], trees.high[tree]
    visits, tried, count = trees.visits[tree, node], trees.tried[tree, node], trees.degree[tree, node]
    factor = factors[visits]
    best, most = 0, -np.inf
    for place in range(tried):
        value = _share(trees.q[tree, node, place], low, high, least)
        score = trees.prior[tree, node, place] * factor / (1 + trees.edge_visits[tree, node, place]) + value
        if score > most:
            best, most = place, score
    if tried < count:
        otherwise = 0.0
        if by_parent and visits > 0:
            otherwise = _share(trees.total[tree, node] / visits, low, high, least)
        score = trees.prior[tree, node, tried] * factor / 1 + otherwise
        if score > most:
            best = tried
    return best


@kernel
def _halved(
    trees: Trees, tree: int, gumbel: int, tried: int, scores: Floats, visit: float, scale: float, least: float
) -> int:
    low, high = trees.low[tree], trees.high[tree]
    count = min(gumbel, trees.degree[tree, 0])
    most_visits = 0
    for place in range(count):
        most_visits = max(most_visits, trees.edge_visits[tree, 0, place])
    otherwise = 0.0
    if trees.visits[tree, 0] > 0:
        otherwise = _share(trees.total[tree, 0] / trees.visits[tree, 0], low, high, least)
    best, most = -1, -np.inf
    for place in range(count):
        if trees.edge_visits[tree, 0, place] != tried:
            continue
        value = otherwise
        if tried > 0:
            value = _share(trees.q[tree, 0, place], low, high, least)
        outlook = scores[tree, place] + (visit + most_visits) * scale * value
        if best < 0 or outlook > most:
            best, most = place, outlook
    return best


@kernel
def grow(
    trees: Trees, growing: Ints, leaves: Ints, parents: Ints, places: Ints,
    reward: Floats, value: Floats, actions: Ints, priors: NDArray[np.float32], counts: Ints, discount: float,
) -> None:  # fmt: skip
    """Hangs the new nodes into their trees and backs their values up; a node where nothing can follow is worth 0."""
    new = 0
    for row in range(growing.size):
        tree, node, worth = growing[row], leaves[row], 0.0
        if node < 0:
            node = trees.size[tree]
            trees.size[tree] = node + 1
            parent, place = parents[tree], places[tree]
            trees.parent[tree, node], trees.place[tree, node] = parent, place
            trees.node[tree, parent, place] = node
            # By Gumbel's choice the root's children come in any order; nobody asks how many of them were tried.
            trees.tried[tree, parent] += 1
            trees.reward[tree, node] = reward[new]
            count = counts[new]
            trees.degree[tree, node] = count
            for child in range(count):
                trees.action[tree, node, child] = actions[new, child]
                trees.prior[tree, node, child] = priors[new, child]
                trees.node[tree, node, child] = -1
                trees.edge_visits[tree, node, child] = 0
                trees.edge[tree, node, child] = child
            if count > 0:
                worth = value[new]
            new += 1
        while True:
            trees.total[tree, node] += worth
            trees.visits[tree, node] += 1
            if node == 0:
                break
            visits = trees.visits[tree, node]
            q = trees.reward[tree, node] + discount * (trees.total[tree, node] / visits)
            parent, place = trees.parent[tree, node], trees.place[tree, node]
            trees.q[tree, parent, place] = q
            trees.edge_visits[tree, parent, place] = visits
            trees.low[tree], trees.high[tree] = min(trees.low[tree], q), max(trees.high[tree], q)
            worth = trees.reward[tree, node] + discount * worth
            node = parent
