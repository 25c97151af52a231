"""The check of the contract finds what an agent does wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from small_world import QUESTIONS, Wanderer, plus

from orienteer.agents import AgentContractError, check_agent
from orienteer.session import STOP, UNDO, Action, Environment, Observation


class Broken(Wanderer):
    """An ordinary agent, but for one flaw."""

    def __init__(self, flaw: str) -> None:
        self.flaw, self.calls = flaw, 0

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        self.calls += 1
        actions = super().act(observations)
        match self.flaw:
            case "drops one":
                return actions[1:]
            case "adds one":
                return [*actions, STOP]
            case "stop words":
                return [plus("of the") for _ in actions]
            case "undoes nothing":
                return [UNDO for _ in actions]
            case "not an action":
                return ["lamp" for _ in actions]  # type: ignore[misc]
            case "remembers":
                return [plus(f"word{self.calls}") for _ in actions]
            case "looks around":
                return [plus(f"word{o.step}of{len(observations)}") for o in observations]
            case "gives up":
                return [STOP for _ in actions]
            case "raises":
                raise RuntimeError("no idea")
            case "needs passages":
                assert all(o.passages for o in observations)
        return actions


def test_a_sound_agent_passes(environment: Environment) -> None:
    check_agent(Wanderer(), environment, QUESTIONS)


@pytest.mark.parametrize(
    ("flaw", "says"),
    [
        ("drops one", "one action for each"),
        ("adds one", "No observations, no actions"),
        ("stop words", "a term not used before"),
        ("undoes nothing", "something to take back"),
        ("not an action", "is not an action"),
        ("remembers", "depends on its observation alone"),
        ("looks around", "depends on its observation alone"),
        ("gives up", "does not stop while it may not"),
        ("raises", "RuntimeError: no idea"),
        ("needs passages", "without passages or terms"),
    ],
)
def test_a_flaw_is_found_and_named(environment: Environment, flaw: str, says: str) -> None:
    with pytest.raises(AgentContractError, match=says):
        check_agent(Broken(flaw), environment, QUESTIONS)


def test_something_that_cannot_act_is_refused(environment: Environment) -> None:
    with pytest.raises(AgentContractError, match="has the method act"):
        check_agent(object(), environment, QUESTIONS)  # type: ignore[arg-type]
