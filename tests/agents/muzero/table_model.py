"""Worlds to plan in that are known exactly: a random one, a bandit, a small game."""

from __future__ import annotations

import numpy as np

from orienteer.agents.muzero.mcts import Expansion, Int32s


class RandomModel:
    """What a node is follows from the actions that led to it, by a generator seeded with them."""

    def __init__(self, trees: int, children: int, seed: int, sharpness: float = 1.0, end: float = 0.05) -> None:
        self._trees, self._children, self._seed = trees, children, seed
        self._sharpness, self._end = sharpness, end
        self._paths: dict[tuple[int, int], tuple[int, ...]] = {}

    def roots(self) -> Expansion:
        self._paths = {(tree, 0): (tree,) for tree in range(self._trees)}
        return self._expanded([self._paths[tree, 0] for tree in range(self._trees)], root=True)

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        paths = []
        for tree, parent, action, node in zip(trees, parents, actions, nodes, strict=True):
            paths.append((*self._paths[int(tree), int(parent)], int(action)))
            self._paths[int(tree), int(node)] = paths[-1]
        return self._expanded(paths)

    def _expanded(self, paths: list[tuple[int, ...]], root: bool = False) -> Expansion:
        size = len(paths)
        found = Expansion(
            np.zeros(size), np.zeros(size), np.zeros((size, self._children), np.int32),
            np.zeros((size, self._children), np.float32), np.zeros(size, np.int32),
        )  # fmt: skip
        for row, path in enumerate(paths):
            draw = np.random.default_rng([self._seed, *path])
            ended = not root and draw.random() < self._end
            count = 0 if ended else int(draw.integers(1, self._children + 1))
            logits = self._sharpness * draw.normal(size=count)
            priors = np.exp(logits - logits.max(initial=0.0))
            priors = (priors / priors.sum() if count else priors).astype(np.float32)
            if count > 2 and draw.random() < 0.3:
                priors[:2] = priors[0]  # ties
            actions = draw.permutation(self._children)[:count]
            order = np.lexsort((actions, -priors))
            found.reward[row], found.value[row] = (0.0, 0.0) if root else draw.normal(size=2)
            found.counts[row] = count
            found.actions[row, :count], found.priors[row, :count] = actions[order], priors[order]
        return found


class Bandit:
    """One choice among arms with known rewards, then the end; the priors know nothing."""

    def __init__(self, rewards: list[float]) -> None:
        self.rewards = np.array(rewards)

    def roots(self) -> Expansion:
        arms = len(self.rewards)
        priors = np.full((1, arms), 1 / arms, np.float32)
        return Expansion(
            np.zeros(1), np.zeros(1), np.arange(arms, dtype=np.int32)[None], priors, np.array([arms], np.int32)
        )

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        size = len(actions)
        return Expansion(
            self.rewards[actions], np.zeros(size), np.zeros((size, 1), np.int32), np.zeros((size, 1), np.float32),
            np.zeros(size, np.int32),
        )  # fmt: skip


class Ladder:
    """Six choices of left and right; only one way through ends at the prize, and a small one waits at the first left.

    Values and priors know nothing of it: the search must find the prize by itself.
    """

    way = (1, 0, 1, 1, 0, 1)

    def __init__(self, prize: float = 1.0, lure: float = 0.05) -> None:
        self._prize, self._lure = prize, lure
        self._paths: dict[int, tuple[int, ...]] = {}

    def roots(self) -> Expansion:
        self._paths = {0: ()}
        return self._expanded([()])

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        paths = []
        for parent, action, node in zip(parents, actions, nodes, strict=True):
            paths.append((*self._paths[int(parent)], int(action)))
            self._paths[int(node)] = paths[-1]
        return self._expanded(paths)

    def _expanded(self, paths: list[tuple[int, ...]]) -> Expansion:
        size = len(paths)
        rewards = [self._prize if path == self.way else self._lure if path == (0,) else 0.0 for path in paths]
        counts = [0 if len(path) == len(self.way) else 2 for path in paths]
        return Expansion(
            np.array(rewards), np.zeros(size), np.tile(np.array([0, 1], np.int32), (size, 1)),
            np.full((size, 2), 0.5, np.float32), np.array(counts, np.int32),
        )  # fmt: skip
