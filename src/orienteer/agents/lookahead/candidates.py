"""Candidate passages: those that some refinement would find and that were not read yet.

Listing hits is cheap, reading them is not. The engine answers all refinements of a state in one pass, about 600, which
find about 500 unread passages; features of their words (`passage_features`) tell which are worth reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import RankedActions
from orienteer.agents.lookahead.passage_features import FEATURES, FOUND_FEATURES, PassageFeatures, TermTable, directions
from orienteer.data.passage import Passage
from orienteer.engine.hits import concatenate, distinct_hits, take
from orienteer.engine.protocol import Engine, Hit
from orienteer.errors import QueryError, SearchBudgetError
from orienteer.models.layers import Float32s
from orienteer.query import Query, Refinement
from orienteer.session import Lexicon, Observation
from orienteer.session.score import K

_FOUND = slice(FEATURES.index(FOUND_FEATURES[0]), FEATURES.index(FOUND_FEATURES[-1]) + 1)
_FIRST_ANSWER = FEATURES.index("holds answer 1")
_CACHED_PASSAGES = 1 << 15
_CACHED_QUESTIONS = 128  # a batch of sessions; about 100 kB for each query of a session

HitLists = Sequence[Sequence[Hit]]
_Refined = tuple[dict[Refinement, int], HitLists]  # where in the lists each refinement's hits are


@dataclass(frozen=True, slots=True)
class Candidates:
    """Unread passages that one refinement finds, and which refinement finds which.

    ids            of the passages
    features       [passages, features]
    hits           [refinements, K]: places in `ids`; -1 where there is no hit, or one that was read before
    ps             of the best passages so far, highest first
    best_answers   [best passages]: number of the answer that each gives; equal answers have one number
    held_answers   [passages]: number of the first of these answers that the passage holds; -1: none
    asked          refinements that the engine was asked for; the others were known from before
    """

    ids: tuple[str, ...]
    features: Float32s
    hits: NDArray[np.int64]
    ps: NDArray[np.float64]
    best_answers: NDArray[np.int64]
    held_answers: NDArray[np.int64]
    asked: int = 0

    def sum_by_refinement(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of the passages' values over each refinement's hits [refinements]."""
        summed: NDArray[np.float64] = np.append(values, 0.0)[self.hits].sum(1)
        return summed


class Lookahead:
    """Finds the candidates of a state; `pieces` numbers the rows of `table`, a BERT's word vectors."""

    def __init__(self, engine: Engine, lexicon: Lexicon, pieces: Mapping[str, int], table: Float32s) -> None:
        self._engine, self._lexicon, self._refine = engine, lexicon, RefineCache(engine)
        self._features = PassageFeatures(engine, lexicon, TermTable(engine, pieces), directions(table))
        self._texts: dict[str, Passage] = {}

    def __call__(self, observation: Observation, actions: RankedActions) -> Candidates | None:
        """The candidates of all ranked refinements; None where the engine cannot answer them."""
        try:
            lists, asked = self.refined(observation, actions)
        except (QueryError, SearchBudgetError):
            return None
        return replace(self.of_hits(observation, actions, lists), asked=asked)

    def refined(
        self, observation: Observation, actions: RankedActions, query: tuple[Refinement, ...] | None = None
    ) -> tuple[HitLists, int]:
        """What each refinement of the session's query finds, or of a prefix of it; and how many were not cached."""
        return self._refine(observation, actions.refinements(), query)

    def of_hits(self, observation: Observation, actions: RankedActions, lists: HitLists) -> Candidates:
        """The candidates of refinements that find `lists`."""
        ids, hits = _unseen(lists, observation.seen)
        return self._candidates(observation, ids, hits, actions.refinements(), actions.log_probabilities)

    def of_passages(self, observation: Observation, ids: Sequence[str], usual: Float32s) -> Candidates:
        """Unread passages as candidates that no refinement finds.

        What is a matter of the refinements that find a passage is unknown of them: those features are the `usual` ones
        [features], the mean of the value model's training data.
        """
        candidates = self._candidates(observation, ids, np.empty((0, K), np.int64), [], np.empty(0))
        candidates.features[:, _FOUND] = usual[_FOUND]
        return candidates

    def _candidates(
        self, observation: Observation, ids: Sequence[str], hits: NDArray[np.int64],
        refinements: Sequence[Refinement], log_probabilities: NDArray[np.float64],
    ) -> Candidates:  # fmt: skip
        best = observation.passages[:K]
        passages, best_passages = self.passages(ids), self.passages([each.id for each in best])
        features = self._features(observation, passages, best_passages, hits, refinements, log_probabilities)
        numbers: dict[str, int] = {}
        answers = [" ".join(self._lexicon.terms(each.answer)) for each in best]
        best_answers = np.array([numbers.setdefault(answer, len(numbers)) for answer in answers], int)
        held = features[:, _FIRST_ANSWER : _FIRST_ANSWER + len(best)] > 0
        first = best_answers[held.argmax(1)] if len(best) else np.full(len(ids), -1)
        ps = np.array([each.score for each in best])
        return Candidates(tuple(ids), features, hits, ps, best_answers, np.where(held.any(1), first, -1))

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages from the engine; most come again at the next step."""
        if len(self._texts) > _CACHED_PASSAGES:
            self._texts = {}  # another thread may still read the old one
        cached = self._texts
        missing = [id for id in ids if id not in cached]
        cached.update(zip(missing, self._engine.passages(missing), strict=True))
        return [cached[id] for id in ids]


class RefineCache:
    """Caches `engine.refine` results of a session's query and its prefixes, so that an undo asks nothing again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions: dict[str, dict[tuple[Refinement, ...], _Refined]] = {}  # by question
        self._lock = Lock()

    def __call__(
        self, observation: Observation, refinements: Sequence[Refinement], query: tuple[Refinement, ...] | None = None
    ) -> tuple[HitLists, int]:
        """The K best passages of each refinement, as the engine gives them; and how many it was asked for.

        `query` is the session's, or a prefix of it.
        """
        query = observation.refinements if query is None else query
        # The first step of a session empties the cache: the engine may have other passages by now.
        session = self._sessions.get(observation.question, {}) if observation.step else {}
        place, lists = session.get(query, ({}, ()))
        if new := [each for each in refinements if each not in place]:
            refined = self._engine.refine(Query(observation.question, query), new, K)
            place = place | {each: len(lists) + number for number, each in enumerate(new)}
            lists = concatenate(lists, refined) if lists else refined
        kept = observation.refinements
        prefixes = {each: known for each, known in session.items() if each == kept[: len(each)]}
        self._keep(observation.question, prefixes | {query: (place, lists)})
        if len(new) == len(lists):
            return lists, len(new)
        return take(lists, [place[each] for each in refinements]), len(new)

    def _keep(self, question: str, session: dict[tuple[Refinement, ...], _Refined]) -> None:
        with self._lock:
            self._sessions.pop(question, None)
            self._sessions[question] = session
            if len(self._sessions) > _CACHED_QUESTIONS:
                del self._sessions[next(iter(self._sessions))]


def _unseen(lists: HitLists, seen: Set[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The passages of lists that were not seen, in order of appearance, and which list has which [lists, K]."""
    ids, places = distinct_hits(lists, K)
    new = np.array([id not in seen for id in ids], np.bool_)
    place = np.append(np.where(new, np.cumsum(new) - 1, -1), -1)
    return [id for id, is_new in zip(ids, new.tolist(), strict=True) if is_new], place[places]
