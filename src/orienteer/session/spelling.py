"""Typing errors: a word that no document has is offered the nearest words that some have.

The correction is a refinement like any other: an optional term added to the query, seen in the trail and undone like
an agent's. The word as it was typed stays in the query, where it finds nothing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from orienteer.engine.protocol import Engine, StoresTerms, SuggestsTerms
from orienteer.query import Refinement
from orienteer.session.agent import Agent, ExplainingAgent, StepNotes, decisions
from orienteer.session.observation import Observation
from orienteer.session.runner import WholeSessionAgent
from orienteer.session.state import NO_COST, Action, AgentCost

T = TypeVar("T")

SPELLING = "spelling"  # who took the step, in its notes
_MOST = 3  # corrections of one question


@dataclass(frozen=True, slots=True)
class Correction:
    """A term of the question that no document has, and the nearest terms of the index, the likeliest first."""

    typed: str
    nearest: tuple[str, ...]

    @property
    def refinement(self) -> Refinement:
        return Refinement("or", "contents", self.nearest[0])


def corrections(engine: Engine, question: str, count: int = 3) -> list[Correction]:
    """One for each unknown term of the question that has near ones; none where the engine cannot tell."""
    if not isinstance(engine, SuggestsTerms) or not isinstance(engine, StoresTerms):
        return []
    terms = list(dict.fromkeys(engine.analyze(question)))
    unknown = [term for term, number in zip(terms, engine.term_numbers(terms), strict=True) if number < 0]
    found = [Correction(term, tuple(engine.nearest_terms(term, count))) for term in unknown if _is_word(term)]
    return [each for each in found if each.nearest and each.nearest[0] not in terms][:_MOST]


def with_spelling(agent: Agent, engine: Engine) -> Agent:
    """The agent, whose first steps correct the question where it needs it; unchanged where that cannot be done."""
    if isinstance(agent, WholeSessionAgent) or not isinstance(engine, SuggestsTerms):
        return agent
    return SpellingAgent(agent, engine)


class SpellingAgent:
    """Corrects first, then lets the agent go on."""

    def __init__(self, agent: Agent, engine: Engine) -> None:
        self.agent = agent
        self._corrections = lru_cache(1024)(lambda question: corrections(engine, question))

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_costs(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return self._acted(observations, lambda rest: decisions(self.agent, rest), lambda correction: NO_COST)

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, StepNotes | None]]:
        return self._acted(
            observations, self._explained, lambda correction: {"by": SPELLING, "typed": correction.typed}
        )

    def _explained(self, observations: Sequence[Observation]) -> Sequence[tuple[Action, StepNotes | None]]:
        if isinstance(self.agent, ExplainingAgent):
            return self.agent.act_with_explanations(observations)
        return [(action, None) for action in self.agent.act(observations)]

    def _acted(
        self,
        observations: Sequence[Observation],
        act: Callable[[Sequence[Observation]], Sequence[tuple[Action, T]]],
        note: Callable[[Correction], T],
    ) -> list[tuple[Action, T]]:
        """Corrections where one is due, each with its note; else what the agent does."""
        corrected = [self._correction(each) for each in observations]
        rest = [each for each, known in zip(observations, corrected, strict=True) if known is None]
        decided = list(act(rest)) if rest else []
        if len(decided) != len(rest):
            return decided  # the runner says what is wrong with it
        left = iter(decided)
        return [next(left) if known is None else (known.refinement, note(known)) for known in corrected]

    def _correction(self, observation: Observation) -> Correction | None:
        """The correction of this step; none once the agent, or a person, has begun to refine."""
        found = self._corrections(observation.question)
        step, taken = observation.step, tuple(each.refinement for each in found[: observation.step])
        return found[step] if step < len(found) and observation.refinements == taken else None


def _is_word(term: str) -> bool:
    return len(term) > 3 and term.isalpha()
