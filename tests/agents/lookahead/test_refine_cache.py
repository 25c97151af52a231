"""A session that undoes a step gets the same hits again, and the engine is asked only for what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from small_world import PASSAGES
from tiny_pointer import observation

from orienteer.agents.lookahead import candidates
from orienteer.agents.lookahead.candidates import RefineCache
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.engine.protocol import Engine, Hit
from orienteer.query import G4, Query, Refinement
from orienteer.session import Observation

WORDS = sorted({word.strip(".,").lower() for passage in PASSAGES[:6] for word in passage.text.split()})[:12]
SOME, MORE = ([r for word in words for r in G4.refinements("contents", word)] for words in (WORDS[:8], WORDS[4:]))
STEP = SOME[0]


class Counting:
    """An engine that notes what it is asked to refine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.asked: list[list[Refinement]] = []

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> Sequence[Sequence[Hit]]:
        self.asked.append(list(refinements))
        return self._engine.refine(query, refinements, k)


@pytest.fixture(params=["embedded", "reference"])
def engine(request: pytest.FixtureRequest, embedded: EmbeddedEngine) -> Engine:
    return embedded if request.param == "embedded" else ReferenceEngine(PASSAGES)


def _state(embedded: EmbeddedEngine, step: int, *refinements: Refinement, asked: str = "") -> Observation:
    return replace(observation(embedded, asked or PASSAGES[0].title, []), refinements=refinements, step=step)


def _plain(lists: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
    return [list(hits) for hits in lists]


def test_results_on_the_way_there_and_back_are_the_engines(engine: Engine, embedded: EmbeddedEngine) -> None:
    counting = Counting(engine)
    refine = RefineCache(counting)
    way = [((), SOME), ((STEP,), SOME), ((), MORE), ((), SOME[::-1]), ((STEP,), MORE)]
    for step, (query, refinements) in enumerate(way):
        before = len(counting.asked)
        seen = _state(embedded, step, *query)
        expected = engine.refine(Query(seen.question, query), refinements, 5)
        lists, asked = refine(seen, refinements)
        assert _plain(lists) == _plain(expected)
        assert asked == (len(counting.asked[-1]) if len(counting.asked) > before else 0)
    unknown = [each for each in MORE if each not in SOME]
    # The way does not go through its second query any more once it has gone back, so that one is asked for anew.
    assert counting.asked == [SOME, SOME, unknown, MORE]


def test_a_session_begins_anew(embedded: EmbeddedEngine) -> None:
    counting = Counting(embedded)
    refine = RefineCache(counting)
    for step in (0, 1, 0):
        refine(_state(embedded, step), SOME)
    assert counting.asked == [SOME, SOME]


def test_the_oldest_question_is_forgotten(embedded: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_CACHED_QUESTIONS", 2)
    counting = Counting(embedded)
    refine = RefineCache(counting)
    titles = [passage.title for passage in PASSAGES if passage.title]
    first, second, third = list(dict.fromkeys(titles))[:3]
    for asked in (first, second, first, third, first, second):
        refine(_state(embedded, 1, asked=asked), SOME)
    assert len(counting.asked) == 4  # the second is the one that had not been seen for longest
