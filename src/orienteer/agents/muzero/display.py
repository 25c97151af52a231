"""A tree for the eye: nested nodes, the most visited children of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from orienteer.agents.muzero.grammar import CROSSED, QueryGrammar
from orienteer.agents.muzero.planning import Grown
from orienteer.agents.muzero.tries import Spelling

CHILDREN, DEPTH = 5, 8


def tree_view(
    grown: Grown, grammar: QueryGrammar, spelling: Spelling, children: int = CHILDREN, depth: int = DEPTH
) -> dict[str, Any]:
    """{"label", "visits", "value", "prior", "children"}; a label is a rule in a few letters, or a wordpiece.

    A node whose query is whole has "search": true; `value` is Q, the reward of the way there included.
    """
    trees, tree = grown.forest.trees, grown.tree
    root = {
        "label": "Q", "visits": int(trees.visits[tree, 0]), "value": round(grown.forest.value(tree), 4), "prior": 1.0
    }  # fmt: skip
    return {**root, "children": _children(grown, grammar, spelling, 0, children, depth)}


def _children(
    grown: Grown, grammar: QueryGrammar, spelling: Spelling, node: int, most: int, depth: int
) -> list[dict[str, Any]]:
    trees, tree = grown.forest.trees, grown.tree
    count = int(trees.degree[tree, node])
    if depth == 0 or count == 0:
        return []
    visits, priors = trees.edge_visits[tree, node, :count], trees.prior[tree, node, :count]
    found = []
    for place in np.lexsort((np.arange(count), -priors, -visits))[:most].tolist():
        action, child = int(trees.action[tree, node, place]), int(trees.node[tree, node, place])
        shown: dict[str, Any] = {
            "label": grammar.label(action) if action < len(grammar) else spelling.token(action - len(grammar)),
            "visits": int(visits[place]),
            "value": round(float(trees.q[tree, node, place]), 4) if child >= 0 else None,
            "prior": round(float(priors[place]), 4),
            "children": _children(grown, grammar, spelling, child, most, depth - 1) if child >= 0 else [],
        }
        if child >= 0 and _searched(grown, node, child):
            shown["search"] = True
        found.append(shown)
    return found


def _searched(grown: Grown, node: int, child: int) -> bool:
    """Whether the way to a child ends with a whole query."""
    states = grown.world.states[grown.tree]
    return bool(states[child, CROSSED]) and states[child, -1] != states[node, -1]
