"""DAgger: Rocchio's word on states that an agent reaches by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS, Wanderer
from tiny_pointer import pointer_tokenizer

from orienteer.agents.pointer import examples as files
from orienteer.agents.pointer.dagger import Visits, dagger_batches, visited
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.agents.pointer.view import Viewer
from orienteer.engine import EmbeddedEngine
from orienteer.query import G2, G4
from orienteer.rocchio import Plan
from orienteer.session import Environment, Settings

SETTINGS = Settings(steps=5, snippet=30)
PLAN = Plan(settings=SETTINGS)


def test_what_is_labelled_has_the_gain_that_is_told(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    visits = Visits(states=3, steps=SETTINGS.steps)
    sessions = visited(environment, Wanderer(), QUESTIONS, visits)
    [moments] = dagger_batches(embedded, LexicalReader(), Wanderer(), G2, QUESTIONS, 30, visits, PLAN)(0)
    assert len(moments) > 5
    for session, observation in zip(sessions, environment.observe(sessions), strict=True):
        for moment in moments:
            if (moment.question_id, moment.observation) != (session.question.id, observation):
                continue
            [told] = moment.labels
            assert told.grammar == G2
            for refinement, gain in told.gains:
                [after] = environment.take([session], [refinement])
                assert after.score is not None
                assert session.score is not None
                assert after.score.total - session.score.total == pytest.approx(gain)


def test_visited_states_are_drawn_by_the_seed_and_go_on(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    one, again, other = (
        visited(environment, Wanderer(), [*QUESTIONS, *HARD_QUESTIONS], Visits(states=2, seed=seed))
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other
    assert all(session.ended is None and session.refinements_made >= 1 for session in one)


def test_a_round_becomes_examples(embedded: EmbeddedEngine, pointer: PointerAgent, tmp_path: Path) -> None:
    questions = [*QUESTIONS, *HARD_QUESTIONS]
    batches = dagger_batches(embedded, LexicalReader(), pointer, G4, questions, 30, Visits(steps=4), PLAN)
    files.build(tmp_path, batches, lambda: Viewer(pointer_tokenizer(), embedded, 320))
    found = list(files.read(tmp_path))
    assert found
    assert all(target.grammar == G4 for example in found for target in example.targets)
