"""A turn's trees for the eye: the most visited children of a node, each search below what the last one took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orienteer.agents.muzero.grammar import QueryGrammar
from orienteer.agents.muzero.planning import Grown
from orienteer.agents.muzero.tries import Spelling
from orienteer.session.agent import TreeNode

CHILDREN, DEPTH = 5, 6  # of a node; of a search


def turn_tree(
    searches: Sequence[Grown], grammar: QueryGrammar, spelling: Spelling, children: int = CHILDREN, depth: int = DEPTH
) -> TreeNode:
    """The searches of one turn as one tree; a label is a rule in a few letters, or a wordpiece.

    A node's value is Q, the reward of the way there included; a root's, the mean of all that was met below it.
    """
    first = searches[0]
    below = _Display(grammar, spelling, children).children(searches, 0, depth)
    return TreeNode("Q", int(first.forest.trees.visits[first.tree, 0]), first.forest.value(first.tree), None, below)


class _Display:
    """What all nodes of a display share."""

    def __init__(self, grammar: QueryGrammar, spelling: Spelling, most: int) -> None:
        self._grammar, self._spelling, self._most = grammar, spelling, most

    def children(self, searches: Sequence[Grown], node: int, depth: int) -> tuple[TreeNode, ...]:
        """The children of a node of the first search; the later searches hang below what was taken."""
        search = searches[0]
        trees, tree = search.forest.trees, search.tree
        count = int(trees.degree[tree, node])
        if depth == 0 or count == 0:
            return ()
        visits, priors = trees.edge_visits[tree, node, :count], trees.prior[tree, node, :count]
        shown = np.lexsort((np.arange(count), -priors, -visits))[: self._most].tolist()
        taken = search.place if node == 0 else -1
        if taken >= 0 and taken not in shown:
            shown = [*shown[:-1], taken]
        return tuple(self._child(searches, node, place, place == taken, depth) for place in shown)

    def _child(self, searches: Sequence[Grown], node: int, place: int, taken: bool, depth: int) -> TreeNode:
        search = searches[0]
        trees, tree = search.forest.trees, search.tree
        action, child = int(trees.action[tree, node, place]), int(trees.node[tree, node, place])
        below: tuple[TreeNode, ...] = ()
        if taken and len(searches) > 1:
            below = self.children(searches[1:], 0, DEPTH)
        elif child >= 0:
            below = self.children(searches[:1], child, depth - 1)
        value = float(trees.q[tree, node, place]) if child >= 0 else None
        visits, prior = int(trees.edge_visits[tree, node, place]), float(trees.prior[tree, node, place])
        return TreeNode(self._label(action), visits, value, prior, below, taken)

    def _label(self, action: int) -> str:
        rules = len(self._grammar)
        return self._grammar.label(action) if action < rules else self._spelling.token(action - rules)
