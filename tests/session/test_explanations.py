"""Explanations of steps: a search tree is stored and read back unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.session import STOP, Action, Agent, Observation
from orienteer.session.agent import (
    DEEPEST,
    ExplainingAgent,
    ExplanationError,
    TreeNode,
    check_explanation,
    tree_explanation,
    tree_of,
)

numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
trees = st.recursive(
    st.builds(TreeNode, st.text(), st.integers(0, 1000), numbers, numbers, taken=st.booleans()),
    lambda below: st.builds(
        TreeNode,
        st.text(),
        st.integers(0, 1000),
        numbers,
        numbers,
        st.lists(below, max_size=4).map(tuple),
        st.booleans(),
    ),
    max_leaves=12,
)


@pytest.mark.long
@given(trees)
def test_a_tree_comes_out_of_json_as_it_went_in(tree: TreeNode) -> None:
    notes = tree_explanation(tree)
    check_explanation(notes)
    assert tree_of(json.loads(json.dumps(notes))) == tree


def test_numbers_of_numpy_become_numbers_of_json() -> None:
    notes = tree_explanation(TreeNode("root", np.int32(3), np.float32(0.5)))  # type: ignore[arg-type]
    check_explanation(notes)
    assert notes == {"tree": {"label": "root", "visits": 3, "value": 0.5}}


def test_no_notes_have_no_tree() -> None:
    assert tree_of(None) is None
    assert tree_of({"by": "you"}) is None
    check_explanation(None)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "0.5", True])
def test_a_value_that_is_no_number_is_refused(number: Any) -> None:
    with pytest.raises(ExplanationError, match="expected a finite number"):
        check_explanation({"tree": {"label": "root", "visits": 1, "value": number}})


def test_a_tree_may_be_deep_but_not_without_end() -> None:
    tree = TreeNode("leaf", 1)
    for _ in range(DEEPEST):
        tree = TreeNode("node", 1, children=(tree,))
    assert tree_of(tree_explanation(tree)) == tree
    with pytest.raises(ExplanationError, match="levels"):
        tree_of(tree_explanation(TreeNode("root", 1, children=(tree,))))


def test_an_agent_that_tells_is_known_by_its_method() -> None:
    class Silent:
        def act(self, observations: Sequence[Observation]) -> list[Action]:
            return [STOP for _ in observations]

    class Telling(Silent):
        def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, None]]:
            return [(action, None) for action in self.act(observations)]

    assert not isinstance(Silent(), ExplainingAgent)
    assert isinstance(Telling(), ExplainingAgent)
    assert isinstance(Telling(), Agent)
