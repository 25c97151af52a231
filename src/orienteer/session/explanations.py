"""What an agent can tell of an action beside the action: notes, and among them the search tree behind it.

An agent that searches a tree has, beside `act`, the method of `TellingAgent`:

    def act_with_notes(self, observations):
        return [(action, tree_notes(root)) for action, root in self._search(observations)]

The notes of a step stand in the session's record; the workbench draws the tree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from orienteer.errors import OrienteerError
from orienteer.session.actions import Action
from orienteer.session.observation import Observation

Notes = Mapping[str, Any]  # JSON

TREE = "tree"
DEEPEST = 100  # levels of a tree


class NotesError(OrienteerError):
    """Notes of a step that no record can hold, or a search tree that is none."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of a search tree.

    label      what leads to it: an action as Lucene writes it, `+(title:"rover")`, or a rule of a grammar
    visits     how often the search came through it
    value      its mean value, where it has one
    prior      the policy's share of it among its siblings, where it has one
    children   those worth telling: nodes that were never visited can be left out
    taken      whether the agent went this way in the end

    Where an action is made of several choices, each searched by itself, the tree of the second stands below the taken
    node of the first, and so on.
    """

    label: str
    visits: int
    value: float | None = None
    prior: float | None = None
    children: tuple[TreeNode, ...] = ()
    taken: bool = False


@runtime_checkable
class TellingAgent(Protocol):
    """An agent that tells how it came to its actions."""

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]: ...

    def act_with_notes(self, observations: Sequence[Observation]) -> Sequence[tuple[Action, Notes | None]]:
        """The actions that `act` gives, each with its notes; None where there is nothing to tell."""
        ...


def tree_notes(root: TreeNode) -> dict[str, Any]:
    """Notes with a search tree; numbers of any library become JSON's."""
    return {TREE: _row(root)}


def tree_of(notes: Notes | None) -> TreeNode | None:
    """The search tree in the notes; raises `NotesError` where what stands there is none."""
    row = (notes or {}).get(TREE)
    return None if row is None else _node(row, 0)


def check_notes(notes: Notes | None) -> None:
    """Raises `NotesError` unless a record can hold the notes and their tree, if they have one, is one."""
    tree_of(notes)
    try:
        json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotesError(f"notes that are not JSON: {error}; give dicts, lists, texts and finite numbers") from None


def _row(node: TreeNode) -> dict[str, Any]:
    row: dict[str, Any] = {"label": node.label, "visits": int(node.visits)}
    for name in ("value", "prior"):
        if (number := getattr(node, name)) is not None:
            row[name] = float(number)
    if node.taken:
        row["taken"] = True
    if node.children:
        row["children"] = [_row(child) for child in node.children]
    return row


def _node(row: Any, depth: int) -> TreeNode:
    if depth > DEEPEST:
        raise NotesError(f"a search tree of more than {DEEPEST} levels; leave out what lies deeper")
    if not isinstance(row, Mapping):
        raise NotesError(f"a node of a search tree is a {type(row).__name__}; expected label, visits, children")
    label, visits, children = row.get("label"), row.get("visits"), row.get("children", [])
    if not isinstance(label, str):
        raise NotesError(f"a node of a search tree with the label {label!r}; expected a text")
    if not isinstance(visits, int) or isinstance(visits, bool) or visits < 0:
        raise NotesError(f"the node {label!r} has the visits {visits!r}; expected a whole number, 0 or more")
    if not isinstance(children, list):
        raise NotesError(f"the node {label!r} has children of type {type(children).__name__}; expected a list")
    value, prior = (_number(label, name, row.get(name)) for name in ("value", "prior"))
    below = tuple(_node(child, depth + 1) for child in children)
    return TreeNode(label, visits, value, prior, below, row.get("taken") is True)


def _number(label: str, name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise NotesError(f"the node {label!r} has the {name} {value!r}; expected a finite number, or none")
    return float(value)
