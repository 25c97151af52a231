"""DAgger: labels of states that an agent reaches by itself, Rocchio's or weak ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS, Wanderer
from tiny_pointer import pointer_tokenizer

from orienteer.agents.encoding import Featurizer
from orienteer.agents.imitation import Label, LabelledState, WeakLabeller, add_weak_labels
from orienteer.agents.pointer import dataset
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.pointer.dagger import RocchioLabels, Visits, WeakLabels, dagger_batches, visited
from orienteer.engine import EmbeddedEngine
from orienteer.query import G2, G4, Refinement
from orienteer.rocchio import RocchioConfig
from orienteer.session import Environment, Settings
from orienteer.session.score import K

SETTINGS = Settings(steps=5, snippet=30)
CONFIG = RocchioConfig(settings=SETTINGS)


def test_what_rocchio_labels_has_the_gain_that_is_told(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    visits = Visits(states=3, steps=SETTINGS.steps)
    sessions = visited(environment, Wanderer(), QUESTIONS, visits)
    labeller = RocchioLabels(embedded, LexicalReader(), G2, CONFIG)
    [states] = dagger_batches(environment, Wanderer(), QUESTIONS, visits, labeller)(0)
    assert len(states) > 5
    for session, observation in zip(sessions, environment.observe(sessions), strict=True):
        for state in states:
            if (state.question_id, state.observation) != (session.question.id, observation):
                continue
            [told] = state.labels
            assert told.grammar == G2
            for refinement, gain in told.gains:
                [after] = environment.step([session], [refinement])
                assert after.score is not None
                assert session.score is not None
                assert after.score.total - session.score.total == pytest.approx(gain)


def test_a_weak_label_is_what_new_passages_hold_whatever_the_reader_thinks(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    walked = visited(environment, Wanderer(), QUESTIONS, Visits(states=1, steps=SETTINGS.steps))
    sessions = [*environment.open(QUESTIONS), *walked]
    observations = environment.observe(sessions)
    labels = WeakLabels(embedded, G4)(sessions, observations)
    found = 0
    for session, seen, told in zip(sessions, observations, labels, strict=True):
        if told is None:
            assert not session.question.answers
            continue
        gains, room = dict(told.gains), K - sum(bool(each.relevant) for each in session.best)
        words = [term.text for term in seen.terms if term.sources - {"title"}]
        for refinement in (Refinement("+", "contents", word) for word in words):
            [after] = environment.step([session], [refinement])
            new = [each for each in after.seen if each not in session.seen]
            count = min(room, sum(bool(each.relevant) for each in new))
            assert gains.get(refinement, 0.0) == pytest.approx(0.1 * count)
            found += count
    assert found


def test_a_question_without_answers_has_no_weak_label(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    sessions = environment.open([replace(QUESTIONS[0], answers=())])
    assert WeakLabels(embedded, G4)(sessions, environment.observe(sessions)) == [None]


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
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    batches = dagger_batches(environment, pointer, questions, Visits(steps=4), WeakLabels(embedded, G4))
    dataset.build(tmp_path, batches, lambda: Featurizer(pointer_tokenizer(), embedded, 320))
    found = list(dataset.read(tmp_path))
    assert found
    assert all(target.grammar == G4 for example in found for target in example.targets)


def test_recorded_states_get_what_rocchio_did_not_read_and_keep_what_it_did(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), SETTINGS)
    sessions = environment.open(QUESTIONS)
    observations = environment.observe(sessions)
    labels = WeakLabels(embedded, G4)(sessions, observations)
    session, seen, told = next(each for each in zip(sessions, observations, labels, strict=True) if each[2].gains)  # type: ignore[union-attr]
    first = told.gains[0][0]  # type: ignore[union-attr]
    recorded = LabelledState(session.question.id, seen, (Label(G4, ((first, 0.37),)), Label(G2, ())))
    stopped = LabelledState(session.question.id, seen, (Label(G4, ()),))
    known = {session.question.id: session.question}
    whole, same = add_weak_labels([recorded, stopped], known, WeakLabeller(embedded))
    assert dict(whole.labels[0].gains) == {**dict(told.gains), first: 0.37}  # type: ignore[union-attr]
    assert whole.labels[1].gains == ()
    assert same == stopped
