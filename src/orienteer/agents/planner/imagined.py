"""Imagined states: what a session would look like after a refinement, before anything is read.

Its hits are the engine's own. Each unread one gets the PS that the value model expects; an answer is known where the
passage holds one of those given so far, else it is taken for an answer of its own. Terms that only the new passages
have are not known: a plan goes on with the terms at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS, RankedActions, can_refine
from orienteer.agents.lookahead.candidates import Candidates, HitLists, Lookahead
from orienteer.agents.lookahead.value_model import Float64s
from orienteer.engine.protocol import Engine, refine_many
from orienteer.errors import QueryError, SearchBudgetError
from orienteer.query import Query, Refinement
from orienteer.session import AgentCost, Lexicon, Observation, ObservedPassage
from orienteer.session.score import K

# What an engine may answer instead of hits: the agent goes on without that look.
_REFUSED = (QueryError, SearchBudgetError)


class ReadingModel(Protocol):
    """Predicts what reading would bring; a pointer with a value model is one."""

    def passage_values(self, candidates: Candidates) -> Float64s:
        """The expected gain of reading each candidate, minus the cost of reading it."""
        ...

    def expected_ps(self, candidates: Candidates, places: Sequence[int]) -> Float64s:
        """The PS that the reader is expected to give some of them."""
        ...


@dataclass(frozen=True, slots=True)
class ImaginedState:
    """`observation` as it would be; `session` is the observation where planning began.

    ranked    the refinements that are left, most probable first, by the policy where planning began
    unknown   best passages that were not read: nobody knows their answers
    """

    session: Observation
    observation: Observation
    ranked: RankedActions
    unknown: frozenset[str] = frozenset()

    @property
    def steps_left(self) -> int:
        return self.observation.steps_left

    @property
    def is_of_session(self) -> bool:
        """Whether its query is the session's or a prefix of it, whose hits are known from before."""
        refinements = self.observation.refinements
        return refinements == self.session.refinements[: len(refinements)]


def states_after_undo(observation: Observation, ranked: RankedActions) -> list[ImaginedState]:
    """The session's state, then that after one undo, after two … down to the question itself."""
    count = len(observation.refinements)
    return [
        ImaginedState(
            observation,
            replace(
                observation, refinements=observation.refinements[: count - undos],
                step=observation.step + undos, steps_left=observation.steps_left - undos,
            ),
            ranked,
        )
        for undos in range(count + 1)
    ]  # fmt: skip


class Imagination:
    """Expands states for `best_plans`."""

    def __init__(self, engine: Engine, lexicon: Lexicon, lookahead: Lookahead, model: ReadingModel) -> None:
        self._engine, self._lexicon = engine, lexicon
        self.lookahead, self.model = lookahead, model

    def expand(self, states: Sequence[ImaginedState]) -> list[ImaginedChoices | None]:
        """What can be done in each; None where nothing can, or the engine cannot answer."""
        return [
            None if lists is None else ImaginedChoices(self, state, lists, asked)
            for state, (lists, asked) in zip(states, self._hits(states), strict=True)
        ]

    def _hits(self, states: Sequence[ImaginedState]) -> list[tuple[HitLists | None, int]]:
        """What all refinements of each state find, and how many of them the engine was asked for."""
        hits: list[tuple[HitLists | None, int]] = [(None, 0)] * len(states)
        ahead = []
        for place, state in enumerate(states):
            if not len(state.ranked) or not can_refine(state.observation, self._lexicon):
                continue
            if not state.is_of_session:
                ahead.append(place)
                continue
            try:
                hits[place] = self.lookahead.refined(state.session, state.ranked, state.observation.refinements)
            except _REFUSED:
                continue
        refinements = [states[place].ranked.refinements() for place in ahead]
        queries = [Query(states[p].observation.question, states[p].observation.refinements) for p in ahead]
        for place, options, lists in zip(ahead, refinements, self._refine_all(queries, refinements), strict=True):
            hits[place] = lists, len(options)
        return hits

    def _refine_all(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]]
    ) -> Sequence[HitLists | None]:
        """One call for all; where the engine refuses it, one for each, so that a query does not fail the others."""
        if not queries:
            return []
        try:
            return refine_many(self._engine, queries, refinements, K)
        except _REFUSED:
            return [self._refine_alone(*each) for each in zip(queries, refinements, strict=True)]

    def _refine_alone(self, query: Query, refinements: Sequence[Refinement]) -> HitLists | None:
        try:
            return self._engine.refine(query, refinements, K)
        except _REFUSED:
            return None


class ImaginedChoices:
    """The refinements of an imagined state, valued."""

    def __init__(self, imagination: Imagination, state: ImaginedState, lists: HitLists, asked: int) -> None:
        self._imagination, self._state = imagination, state
        candidates = imagination.lookahead.of_hits(state.observation, state.ranked, lists)
        self._candidates = replace(candidates, best_answers=_told_apart(candidates, state))
        self.values = self._candidates.sum_by_refinement(imagination.model.passage_values(self._candidates))
        self.cost = AgentCost(refinements_scored=asked, passages_scored=len(candidates.ids))

    def refinement(self, place: int) -> Refinement:
        return self._state.ranked.refinement(place)

    def new_passages(self, place: int) -> frozenset[str]:
        return frozenset(self._candidates.ids[at] for at in self._places(place))

    def after(self, place: int) -> ImaginedState:
        before, places = self._state.observation, self._places(place)
        ids = [self._candidates.ids[at] for at in places]
        known = [self._known_answer(at) for at in places]
        expected = self._imagination.model.expected_ps(self._candidates, places)
        imagined = [
            ObservedPassage(passage.id, passage.title, "", answer, float(ps))
            for passage, answer, ps in zip(self._imagination.lookahead.passages(ids), known, expected, strict=True)
        ]
        best = sorted([*before.passages[:K], *imagined], key=lambda each: -each.score)[:K]
        taken = self.refinement(place)
        observation = replace(
            before, refinements=(*before.refinements, taken), passages=tuple(best), used=before.used | {taken.term},
            terms=tuple(term for term in before.terms if term.text != taken.term),
            seen=before.seen.union(ids), step=before.step + 1, steps_left=before.steps_left - 1,
        )  # fmt: skip
        unknown = self._state.unknown | {id for id, answer in zip(ids, known, strict=True) if not answer}
        return ImaginedState(self._state.session, observation, without_term(self._state.ranked, place), unknown)

    def _places(self, place: int) -> list[int]:
        return [int(at) for at in self._candidates.hits[place] if at >= 0]

    def _known_answer(self, at: int) -> str:
        """The answer of a best passage that a candidate holds too; empty where it holds none."""
        held = int(self._candidates.held_answers[at])
        if held < 0:
            return ""
        [first, *_] = np.flatnonzero(self._candidates.best_answers == held).tolist()
        return self._state.observation.passages[first].answer


def without_term(ranked: RankedActions, place: int) -> RankedActions:
    """What is left once the refinement at `place` is taken: a term is used once."""
    of_terms = ranked.actions // len(SLOTS)
    left = of_terms != of_terms[place]
    return replace(ranked, actions=ranked.actions[left], log_probabilities=ranked.log_probabilities[left])


def _told_apart(candidates: Candidates, state: ImaginedState) -> NDArray[np.int64]:
    """The numbers of the best passages' answers, where each unknown answer is one of its own."""
    numbers = candidates.best_answers.copy()
    for rank, passage in enumerate(state.observation.passages[:K]):
        if passage.id in state.unknown:
            numbers[rank] = K + rank
    return numbers
