"""MuZero's tree search, with Gumbel's choice at the root on request, for a batch of trees held in arrays.

One call of the model per simulation serves all trees. Children are sorted by prior, highest first, so the expanded
ones are always the first few, and only one unexpanded child, the next, can be the best: a node with a hundred children
costs no more than those that were visited. Tests compare whole trees with a plain reference search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import SearchSettings
from orienteer.engine.embedded.kernels.compile import inlined, kernel

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


class Expansion(NamedTuple):
    """The model's predictions for n new nodes.

    reward   [n] of the action that led there; 0 at a root
    value    [n]
    actions  [n, children] legal actions, the first `counts` of each row, by prior, highest first
    priors   [n, children]; they need not sum to 1
    counts   [n]; 0 at a final state
    """

    reward: Float64s
    value: Float64s
    actions: Int32s
    priors: NDArray[np.float32]
    counts: Int32s


class Model(Protocol):
    """A model of the environment. It keeps its states by (tree, node); predictions for a node depend on it alone."""

    def roots(self) -> Expansion:
        """The root of every tree, node 0."""
        ...

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        """New nodes, each by an action from a parent of the same tree; `edges`: the actions' indices there. All [n]."""
        ...


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


def search(
    model: Model,
    settings: SearchSettings,
    noise: Sequence[RootNoise] | None = None,
    roots: Expansion | None = None,
    min_actions: int = 1,
) -> SearchResult:
    """Runs all simulations in every tree whose root has at least `min_actions` actions.

    `roots`: the model's roots, where the caller has them already. `noise`: one per tree.
    """
    root_expansion = roots or model.roots()
    result = _new_trees(root_expansion, settings, noise)
    trees, factors = result.trees, settings.factors()
    batch = len(result)
    halving = np.array([
        settings.halving(min(settings.gumbel, int(count))) for count in root_expansion.counts
    ], np.int32).reshape(batch, -1)  # fmt: skip
    parents, child_indices, leaves = (np.empty(batch, np.int32) for _ in range(3))
    all_trees = np.arange(batch, dtype=np.int32)
    growing = all_trees[root_expansion.counts >= max(1, min_actions)]
    unvisited_as_parent = settings.unvisited == "parent"
    none = _no_expansion()
    for simulation in range(settings.simulations if len(growing) else 0):
        num_new = select_leaves(
            trees, growing, factors, settings.least_range, unvisited_as_parent, settings.gumbel, simulation, halving,
            result.scores, settings.gumbel_visit, settings.gumbel_scale, parents, child_indices, leaves,
        )  # fmt: skip
        step = none
        if num_new:
            new = growing[leaves[: len(growing)] == NONE] if num_new < len(growing) else growing
            at, child = parents[new], child_indices[new]
            nodes = trees.size[new]
            step = model.step(new, at, trees.child_edge[new, at, child], trees.child_action[new, at, child], nodes)
        expand_and_back_up(trees, growing, leaves, parents, child_indices, *step, settings.discount)
    return result


def _no_expansion() -> Expansion:
    return Expansion(
        np.zeros(0), np.zeros(0), np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32), np.zeros(0, np.int32)
    )


def _empty_trees(batch: int, nodes: int, children: int) -> Trees:
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


def _new_trees(expansion: Expansion, settings: SearchSettings, noise: Sequence[RootNoise] | None) -> SearchResult:
    batch, nodes = len(expansion.counts), settings.simulations + 1
    children = max(settings.children, int(expansion.counts.max(initial=1)), 1)
    trees = _empty_trees(batch, nodes, children)
    scores = np.full((batch, children), -np.inf)
    for tree in range(batch):
        count = int(expansion.counts[tree])
        mixed, scores_of_tree, order = noisy_priors(
            expansion.priors[tree, :count], noise[tree] if noise else RootNoise(), settings
        )
        scores[tree, :count] = scores_of_tree
        trees.num_children[tree, 0] = count
        trees.child_prior[tree, 0, :count], trees.child_edge[tree, 0, :count] = mixed, order
        trees.child_action[tree, 0, :count] = expansion.actions[tree, :count][order]
        trees.child_node[tree, 0, :count], trees.child_visits[tree, 0, :count] = NONE, 0
    return SearchResult(trees, scores, expansion.value, settings)


@inlined
def _normalised_q(value: float, low: float, high: float, min_range: float) -> float:
    if high <= low:
        return value if min_range == 0 else 0.0
    return (value - low) / max(high - low, min_range)


@kernel
def select_leaves(
    trees: Trees, growing: Int32s, factors: Float64s, min_range: float, unvisited_as_parent: bool, gumbel: int,
    simulation: int,
    halving: Int32s, scores: Float64s, visit: float, scale: float, parents: Int32s, child_indices: Int32s,
    leaves: Int32s,
) -> int:  # fmt: skip
    """Descends every tree to a child that is not expanded, or to a final node; returns the number of the former.

    Writes the child's parent and index by tree, and by row of `growing` the final node, -1 for none.
    """
    num_new = 0
    for row in range(growing.size):
        tree = growing[row]
        node = 0
        while True:
            count = trees.num_children[tree, node]
            if count == 0:
                leaves[row] = node
                break
            if node == 0 and gumbel > 0:
                best = _best_by_halving(trees, tree, gumbel, halving[tree, simulation], scores, visit, scale, min_range)
            else:
                best = _best_by_puct(trees, tree, node, factors, unvisited_as_parent, min_range)
            child = trees.child_node[tree, node, best]
            if child < 0:
                parents[tree], child_indices[tree], leaves[row] = node, best, -1
                num_new += 1
                break
            node = child
    return num_new


@kernel
def _best_by_puct(
    trees: Trees, tree: int, node: int, factors: Float64s, unvisited_as_parent: bool, min_range: float
) -> int:
    low, high = trees.min_q[tree], trees.max_q[tree]
    visits, tried, count = trees.visits[tree, node], trees.num_expanded[tree, node], trees.num_children[tree, node]
    factor = factors[visits]
    best, most = 0, -np.inf
    for child in range(tried):
        value = _normalised_q(trees.child_q[tree, node, child], low, high, min_range)
        score = trees.child_prior[tree, node, child] * factor / (1 + trees.child_visits[tree, node, child]) + value
        if score > most:
            best, most = child, score
    if tried < count:
        unvisited_q = 0.0
        if unvisited_as_parent and visits > 0:
            unvisited_q = _normalised_q(trees.value_sum[tree, node] / visits, low, high, min_range)
        score = trees.child_prior[tree, node, tried] * factor / 1 + unvisited_q
        if score > most:
            best = tried
    return best


@kernel
def _best_by_halving(
    trees: Trees, tree: int, gumbel: int, tried: int, scores: Float64s, visit: float, scale: float, min_range: float
) -> int:
    low, high = trees.min_q[tree], trees.max_q[tree]
    count = min(gumbel, trees.num_children[tree, 0])
    most_visits = 0
    for child in range(count):
        most_visits = max(most_visits, trees.child_visits[tree, 0, child])
    unvisited_q = 0.0
    if trees.visits[tree, 0] > 0:
        unvisited_q = _normalised_q(trees.value_sum[tree, 0] / trees.visits[tree, 0], low, high, min_range)
    best, most = -1, -np.inf
    for child in range(count):
        if trees.child_visits[tree, 0, child] != tried:
            continue
        value = unvisited_q
        if tried > 0:
            value = _normalised_q(trees.child_q[tree, 0, child], low, high, min_range)
        score = scores[tree, child] + (visit + most_visits) * scale * value
        if best < 0 or score > most:
            best, most = child, score
    return best


@kernel
def expand_and_back_up(
    trees: Trees, growing: Int32s, leaves: Int32s, parents: Int32s, child_indices: Int32s,
    reward: Float64s, value: Float64s, actions: Int32s, priors: NDArray[np.float32], counts: Int32s, discount: float,
) -> None:  # fmt: skip
    """Adds the new nodes to their trees and backs their values up; a final node has the value 0."""
    new = 0
    for row in range(growing.size):
        tree, node, backed_up = growing[row], leaves[row], 0.0
        if node < 0:
            node = trees.size[tree]
            trees.size[tree] = node + 1
            parent, index = parents[tree], child_indices[tree]
            trees.parent[tree, node], trees.child_index[tree, node] = parent, index
            trees.child_node[tree, parent, index] = node
            # With Gumbel's choice the root's children are expanded in any order; the root's count is then not read.
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
                backed_up = value[new]
            new += 1
        while True:
            trees.value_sum[tree, node] += backed_up
            trees.visits[tree, node] += 1
            if node == 0:
                break
            visits = trees.visits[tree, node]
            q = trees.reward[tree, node] + discount * (trees.value_sum[tree, node] / visits)
            parent, index = trees.parent[tree, node], trees.child_index[tree, node]
            trees.child_q[tree, parent, index] = q
            trees.child_visits[tree, parent, index] = visits
            trees.min_q[tree], trees.max_q[tree] = min(trees.min_q[tree], q), max(trees.max_q[tree], q)
            backed_up = trees.reward[tree, node] + discount * backed_up
            node = parent


class RootNoise(NamedTuple):
    """Random numbers for a root's children [children]: Dirichlet or Gumbel noise."""

    dirichlet: Float64s | None = None
    gumbel: Float64s | None = None


def root_noise(count: int, settings: SearchSettings, draw: np.random.Generator | None) -> RootNoise:
    """`draw` is None for no randomness, as in evaluation."""
    if settings.gumbel:
        return RootNoise(gumbel=draw.gumbel(size=count) if draw is not None else np.zeros(count))
    if draw is None or settings.noise_share == 0:
        return RootNoise()
    return RootNoise(dirichlet=draw.dirichlet(np.full(count, settings.noise_alpha)))


def noisy_priors(
    priors: NDArray[np.float32], noise: RootNoise, settings: SearchSettings
) -> tuple[NDArray[np.float32], Float64s, NDArray[np.int64]]:
    """The root's priors with noise, the scores (log priors plus Gumbel noise), and the children's new order.

    The order is by prior, or by score with Gumbel noise, highest first and stable; all three [children].
    """
    mixed = priors
    if noise.dirichlet is not None:
        share = settings.noise_share
        mixed = ((1 - share) * priors.astype(np.float64) + share * noise.dirichlet).astype(np.float32)
    scores = np.log(np.maximum(mixed.astype(np.float64), 1e-30))
    if noise.gumbel is not None:
        scores = scores + noise.gumbel
    order = np.argsort(-scores if noise.gumbel is not None else -mixed, kind="stable")
    return mixed[order], scores[order], order


def policy_of(visits: NDArray[np.int32], temperature: float = 1.0) -> Float64s:
    """visits^(1 / temperature), normalised; temperature 0: all on the most visited."""
    counts = visits.astype(np.float64)
    if temperature == 0:
        best = np.zeros(len(counts))
        best[int(np.argmax(counts))] = 1.0
        return best
    if counts.sum() == 0:
        return np.full(len(counts), 1 / len(counts))
    powered = (counts / counts.max()) ** (1 / temperature)
    shares: Float64s = powered / powered.sum()
    return shares


def sample(shares: Float64s, draw: np.random.Generator) -> int:
    """An index drawn with these probabilities."""
    return min(int(np.searchsorted(np.cumsum(shares), draw.random(), side="right")), len(shares) - 1)
