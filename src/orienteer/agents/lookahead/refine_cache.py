"""What a session has looked at: one that takes a refinement back looks at the query before again.

Of refinements that were looked at there, nothing is asked a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from orienteer.engine.hits import concatenate, take
from orienteer.engine.protocol import Engine, Hit
from orienteer.query import Query, Refinement
from orienteer.session import Observation
from orienteer.session.score import K

Lists = Sequence[Sequence[Hit]]
_Kept = tuple[dict[Refinement, int], Lists]  # where each refinement's list is
_QUESTIONS = 128  # in lock-step; some 100 kB for each query on a session's way


class Recall:
    """`engine.refine` of an observation's query, remembered along the way from the question to that query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ways: dict[str, dict[tuple[Refinement, ...], _Kept]] = {}  # by question
        self._lock = Lock()

    def __call__(self, observation: Observation, refinements: Sequence[Refinement]) -> Lists:
        """The K best passages of each refinement, as the engine gives them."""
        query = observation.refinements
        # A session's first look begins anew: meanwhile the engine may have got other passages.
        way = self._ways.get(observation.question, {}) if observation.step else {}
        place, lists = way.get(query, ({}, ()))
        if new := [each for each in refinements if each not in place]:
            found = self._engine.refine(Query(observation.question, query), new, K)
            place = place | {each: len(lists) + number for number, each in enumerate(new)}
            lists = concatenate(lists, found) if lists else found
        before = {each: kept for each, kept in way.items() if each == query[: len(each)]}
        self._keep(observation.question, before | {query: (place, lists)})
        if len(new) == len(lists):
            return lists
        return take(lists, [place[each] for each in refinements])

    def _keep(self, question: str, way: dict[tuple[Refinement, ...], _Kept]) -> None:
        with self._lock:
            self._ways.pop(question, None)
            self._ways[question] = way
            if len(self._ways) > _QUESTIONS:
                del self._ways[next(iter(self._ways))]
