"""DAgger: Rocchio's word on states that an agent reaches by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS, Wanderer
from tiny_pointer import pointer_tokenizer

from orienteer.agents.pointer import examples as files
from orienteer.agents.pointer.dagger import StateLabeller, Visits, dagger_batches, visited
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.agents.pointer.view import Viewer
from orienteer.engine import EmbeddedEngine
from orienteer.query import G2, G4, GRAMMARS
from orienteer.rocchio import Plan, Variant, rocchio_sessions
from orienteer.session import Environment, Settings

SETTINGS = Settings(steps=5, snippet=30)
PLAN = Plan(settings=SETTINGS)


@pytest.mark.parametrize("name", list(GRAMMARS))
def test_at_a_sessions_start_the_labels_are_rocchios_own_first_step(name: str, embedded: EmbeddedEngine) -> None:
    grammar = GRAMMARS[name]
    searched = rocchio_sessions(embedded, LexicalReader(), QUESTIONS, [Variant(grammar)], PLAN)
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    labels = StateLabeller(embedded, LexicalReader(), grammar, PLAN).label(environment.open(QUESTIONS))
    for [session], told in zip(searched, labels, strict=True):
        if session.start is None:
            assert told is None
            continue
        assert told is not None
        assert told.grammar == grammar
        if not session.steps:
            assert told.gains == ()
            continue
        first = session.steps[0]
        assert told.gains[0][0] == first.refinement
        assert told.gains[0][1] == pytest.approx(first.state.score.total - session.start.score.total)
        improving = [(r, s) for r, s in first.others if s - session.start.score.total > 1e-6]
        assert [refinement for refinement, _ in told.gains[1:]] == [refinement for refinement, _ in improving]


def test_along_a_session_the_labels_are_its_further_steps(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    labeller = StateLabeller(embedded, LexicalReader(), G4, PLAN)
    for [session] in rocchio_sessions(embedded, LexicalReader(), QUESTIONS, [Variant(G4)], PLAN):
        [played] = environment.open([q for q in QUESTIONS if q.id == session.id])
        for step in session.steps:
            [told] = labeller.label([played])
            assert told is not None
            assert told.gains[0][0] == step.refinement
            [played] = environment.take([played], [step.refinement])
        if session.ended == "best":
            [told] = labeller.label([played])
            assert told is not None
            assert told.gains == ()


def test_what_is_labelled_has_the_gain_that_is_told(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    sessions = visited(environment, Wanderer(), QUESTIONS, Visits(states=3))
    assert len(sessions) > 5
    for session, told in zip(sessions, StateLabeller(embedded, LexicalReader(), G2, PLAN).label(sessions), strict=True):
        for refinement, gain in told.gains if told else ():
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
