"""The `Agent` protocol: from observations to actions; `ExplainingAgent` also says how it chose them, `CostingAgent` at
what cost.

An agent with a search tree implements, beside `act`:

    def act_with_explanations(self, observations):
        return [(action, tree_explanation(root)) for action, root in self._search(observations)]

Explanations are stored in the session's record (as `notes` of a step); the workbench draws the tree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from orienteer.errors import OrienteerError
from orienteer.session.observation import Observation
from orienteer.session.state import NO_COST, Action, AgentCost


@runtime_checkable
class Agent(Protocol):
    """An action depends on its observation alone, not on the rest of the batch or on earlier calls.

    A random agent draws from `observation.seed`. While `observation.may_stop` is false, an agent may stop only where
    no term is left to refine with.
    """

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        """One action for each observation, in their order."""
        ...


@runtime_checkable
class CostingAgent(Protocol):
    """An agent that also says what its decisions cost beside queries and readings; sessions add it up."""

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]: ...

    def act_with_costs(self, observations: Sequence[Observation]) -> Sequence[tuple[Action, AgentCost]]:
        """The actions that `act` returns, each with its cost."""
        ...


def decisions(agent: Agent, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
    """The agent's actions with their costs; an agent that does not tell them costs nothing."""
    if isinstance(agent, CostingAgent):
        return list(agent.act_with_costs(observations))
    return [(action, NO_COST) for action in agent.act(observations)]


StepNotes = Mapping[str, Any]  # JSON

TREE = "tree"
DEEPEST = 100  # levels of a tree


class ExplanationError(OrienteerError):
    """An explanation that a record cannot hold, or whose search tree is malformed."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of a search tree.

    label      the action that leads to it in Lucene syntax, `+(title:"rover")`, or a rule of a grammar
    visits     visit count
    value      mean value, where it has one
    prior      the policy's probability among its siblings, where it has one
    children   nodes that were never visited can be left out
    taken      whether the agent chose it in the end

    Where an action consists of several choices with a search each, the tree of the second is below the taken node of
    the first, and so on.
    """

    label: str
    visits: int
    value: float | None = None
    prior: float | None = None
    children: tuple[TreeNode, ...] = ()
    taken: bool = False


@runtime_checkable
class ExplainingAgent(Protocol):
    """An agent that explains its actions."""

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]: ...

    def act_with_explanations(self, observations: Sequence[Observation]) -> Sequence[tuple[Action, StepNotes | None]]:
        """The actions that `act` returns, each with its explanation; None where there is none."""
        ...


def tree_explanation(root: TreeNode) -> dict[str, Any]:
    """An explanation that holds a search tree; NumPy numbers become JSON numbers."""
    return {TREE: _node_row(root)}


def tree_of(explanation: StepNotes | None) -> TreeNode | None:
    """The search tree in an explanation, None where it has none; raises `ExplanationError` if it is malformed."""
    row = (explanation or {}).get(TREE)
    return None if row is None else _read_node(row, 0)


def check_explanation(explanation: StepNotes | None) -> None:
    """Raises `ExplanationError` unless a record can hold the explanation and its tree is well-formed."""
    tree_of(explanation)
    try:
        json.dumps(explanation, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExplanationError(
            f"notes that are not JSON: {error}; give dicts, lists, strings and finite numbers"
        ) from None


def _node_row(node: TreeNode) -> dict[str, Any]:
    row: dict[str, Any] = {"label": node.label, "visits": int(node.visits)}
    for name in ("value", "prior"):
        if (number := getattr(node, name)) is not None:
            row[name] = float(number)
    if node.taken:
        row["taken"] = True
    if node.children:
        row["children"] = [_node_row(child) for child in node.children]
    return row


def _read_node(row: Any, depth: int) -> TreeNode:
    if depth > DEEPEST:
        raise ExplanationError(f"a search tree of more than {DEEPEST} levels; leave out what lies deeper")
    if not isinstance(row, Mapping):
        raise ExplanationError(f"a node of a search tree is a {type(row).__name__}; expected label, visits, children")
    label, visits, children = row.get("label"), row.get("visits"), row.get("children", [])
    if not isinstance(label, str):
        raise ExplanationError(f"a node of a search tree with the label {label!r}; expected a text")
    if not isinstance(visits, int) or isinstance(visits, bool) or visits < 0:
        raise ExplanationError(f"the node {label!r} has the visits {visits!r}; expected a whole number, 0 or more")
    if not isinstance(children, list):
        raise ExplanationError(f"the node {label!r} has children of type {type(children).__name__}; expected a list")
    value, prior = (_number(label, name, row.get(name)) for name in ("value", "prior"))
    below = tuple(_read_node(child, depth + 1) for child in children)
    return TreeNode(label, visits, value, prior, below, row.get("taken") is True)


def _number(label: str, name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ExplanationError(f"the node {label!r} has the {name} {value!r}; expected a finite number, or none")
    return float(value)
