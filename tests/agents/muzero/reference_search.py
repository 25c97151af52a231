"""The search of one tree with plain objects: slow, and plain to read. The fast one must grow the very same tree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from orienteer.agents.muzero.config import SearchSettings
from orienteer.agents.muzero.mcts import Expansion, Model, RootNoise, noisy_priors

QUIET = RootNoise()


@dataclass
class Node:
    """A state that was reached; `children` has one edge for every action, in the order of priors."""

    number: int
    reward: float
    children: list[Edge] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0

    @property
    def value(self) -> float:
        return self.total / self.visits


@dataclass
class Edge:
    action: int
    place: int  # among the children that the model gave
    prior: float
    score: float = 0.0  # what Gumbel's choice starts from; at the root only
    node: Node | None = None

    @property
    def visits(self) -> int:
        return self.node.visits if self.node else 0

    def q(self, discount: float) -> float:
        assert self.node is not None
        return self.node.reward + discount * self.node.value


@dataclass
class Bounds:
    """The lowest and the highest Q met in a tree; a value is told as a share of the way between them."""

    least: float
    low: float = float("inf")
    high: float = float("-inf")

    def meet(self, q: float) -> None:
        self.low, self.high = min(self.low, q), max(self.high, q)

    def share(self, q: float) -> float:
        if self.high <= self.low:
            return q if self.least == 0 else 0.0
        return (q - self.low) / max(self.high - self.low, self.least)


def reference_search(model: Model, settings: SearchSettings, noise: RootNoise = QUIET, tree: int = 0) -> Node:
    """The tree with this number after all simulations."""
    found = model.roots()
    root = Node(0, 0.0)
    _expand(root, found, tree)
    _add_noise(root, noise, settings)
    factors, bounds = settings.factors().tolist(), Bounds(settings.least_range)
    halving = settings.halving(min(settings.gumbel, len(root.children)))
    nodes = 1
    for simulation in range(settings.simulations):
        path, value = [root], 0.0
        while path[-1].children:
            at = path[-1]
            if at is root and settings.gumbel:
                edge = _halved(root, halving[simulation], settings, bounds)
            else:
                edge = _best(at, factors, settings, bounds)
            if edge.node is None:
                edge.node, value = _reach(model, tree, at, edge, nodes)
                nodes += 1
                path.append(edge.node)
                break
            path.append(edge.node)
        _back_up(path, value, settings.discount, bounds)
    return root


def _reach(model: Model, tree: int, parent: Node, edge: Edge, number: int) -> tuple[Node, float]:
    """A new node, and its value; one where nothing can follow has the value 0."""
    one = [np.array([each], np.int32) for each in (tree, parent.number, edge.place, edge.action, number)]
    found = model.step(*one)
    node = Node(number, float(found.reward[0]))
    _expand(node, found, 0)
    return node, float(found.value[0]) if node.children else 0.0


def _expand(node: Node, found: Expansion, row: int) -> None:
    for place in range(int(found.counts[row])):
        node.children.append(Edge(int(found.actions[row, place]), place, float(found.priors[row, place])))


def _add_noise(root: Node, noise: RootNoise, settings: SearchSettings) -> None:
    priors = np.array([edge.prior for edge in root.children], np.float32)
    mixed, scores, order = noisy_priors(priors, noise, settings)
    root.children = [root.children[place] for place in order]
    for edge, prior, score in zip(root.children, mixed, scores, strict=True):
        edge.prior, edge.score = float(prior), float(score)


def _best(node: Node, factors: list[float], settings: SearchSettings, bounds: Bounds) -> Edge:
    """The child with the highest PUCT score; the first of equals."""
    factor = factors[node.visits]
    otherwise = 0.0
    if settings.unvisited == "parent" and node.visits:
        otherwise = bounds.share(node.value)

    def score(edge: Edge) -> float:
        value = bounds.share(edge.q(settings.discount)) if edge.node else otherwise
        return edge.prior * factor / (1 + edge.visits) + value

    return max(node.children, key=score)


def _halved(root: Node, tried: int, settings: SearchSettings, bounds: Bounds) -> Edge:
    """Of the considered children that were tried so often, the one with the best outlook."""
    considered = root.children[: settings.gumbel]
    most = max(edge.visits for edge in considered)
    otherwise = bounds.share(root.value) if root.visits else 0.0

    def outlook(edge: Edge) -> float:
        value = bounds.share(edge.q(settings.discount)) if edge.node else otherwise
        return edge.score + (settings.gumbel_visit + most) * settings.gumbel_scale * value

    return max((edge for edge in considered if edge.visits == tried), key=outlook)


def _back_up(path: list[Node], value: float, discount: float, bounds: Bounds) -> None:
    for node in reversed(path):
        node.total += value
        node.visits += 1
        if node is not path[0]:
            bounds.meet(node.reward + discount * node.value)
        value = node.reward + discount * value
