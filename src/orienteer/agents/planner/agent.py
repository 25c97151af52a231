"""The agent `planner`: the pointer's policy and value model, and plans of several refinements in the real engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from orienteer.agents.action_space import RankedActions, can_refine
from orienteer.agents.lookahead.candidates import Lookahead
from orienteer.agents.planner.imagined import (
    Imagination,
    ReadingModel,
    states_after_undo,
)
from orienteer.agents.planner.search import Plan, Planned, PlanSettings, best_plans
from orienteer.engine.protocol import Engine
from orienteer.session import NO_COST, STOP, UNDO, Action, AgentCost, Lexicon, Observation

BLIND = "blind"  # the fallback of a decision without planning, because the engine could not answer the refinements

Decision = tuple[Action, dict[str, Any], AgentCost]


class Policy(ReadingModel, Protocol):
    """What a planner needs of a pointer."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def lookahead(self) -> Lookahead: ...

    def rank(self, observations: Sequence[Observation]) -> Iterator[RankedActions]:
        """Every legal refinement of each state, most probable first."""
        ...


class PlannerAgent:
    """Takes the first step of the best plan."""

    def __init__(self, policy: Policy, engine: Engine, settings: PlanSettings | None = None) -> None:
        self._policy, self.settings, self._lexicon = policy, settings or PlanSettings(), Lexicon(engine)
        self._imagination = Imagination(engine, self._lexicon, policy.lookahead, policy)

    @property
    def fingerprint(self) -> str:
        plan = self.settings
        return f"{self._policy.fingerprint}-plan-{plan.depth}-{plan.beam}-{plan.discount}"

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _, _ in self._decisions(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return [(action, cost) for action, _, cost in self._decisions(observations)]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, dict[str, Any]]]:
        """Each action with the best plan of each length."""
        return [(action, notes) for action, notes, _ in self._decisions(observations)]

    def _decisions(self, observations: Sequence[Observation]) -> list[Decision]:
        ranked = list(self._policy.rank(observations))
        roots = [
            states_after_undo(observation, actions) if self._can_refine(observation, actions) else []
            for observation, actions in zip(observations, ranked, strict=True)
        ]
        planned = best_plans(roots, self._imagination.expand, self.settings)
        return [self._decide(*each) for each in zip(observations, ranked, planned, strict=True)]

    def _can_refine(self, observation: Observation, ranked: RankedActions) -> bool:
        return len(ranked) > 0 and can_refine(observation, self._lexicon)

    def _decide(self, observation: Observation, ranked: RankedActions, planned: Planned) -> Decision:
        if not self._can_refine(observation, ranked):
            return STOP, {}, NO_COST
        if not planned.plans:
            return ranked.refinement(0), {}, planned.cost + AgentCost(fallbacks={BLIND: 1})
        notes = {
            "plans": [
                [[*["undo"] * plan.undos, *map(str, plan.refinements)], round(plan.value, 4)] for plan in planned.plans
            ]
        }
        best = max(planned.plans, key=lambda plan: plan.value)
        return first_step(observation, best), notes, planned.cost


def first_step(observation: Observation, best: Plan) -> Action:
    """Where no plan is worth its reading: undo; on the question itself stop where the agent may, else go on.

    Refinements that find nothing to read are worth 0, so the best plan is then the most probable of them, if any.
    """
    if best.value > 0:
        return UNDO if best.undos else best.refinements[0]
    if observation.refinements:
        return UNDO
    return STOP if observation.may_stop else best.refinements[0]
