"""What Algorithm 1 would do in a state, whoever reached it."""

from __future__ import annotations

import pytest
from generated_world import ASKED
from hash_reader import HashReader
from small_world import Wanderer

from orienteer.engine import EmbeddedEngine
from orienteer.query import G2, G4, GRAMMARS
from orienteer.rocchio import RocchioConfig, Variant, rocchio_sessions
from orienteer.rocchio.batched_sessions import BatchedSearch, Choice
from orienteer.session import Environment, Settings

SETTINGS = Settings(steps=4, snippet=30)
CONFIG = RocchioConfig(n=30, m=10, settings=SETTINGS, others=6)
READER = HashReader(ASKED)


@pytest.mark.long
@pytest.mark.parametrize("name", list(GRAMMARS))
def test_at_a_sessions_start_it_is_the_sessions_first_step(name: str, engine: EmbeddedEngine) -> None:
    variant = Variant(GRAMMARS[name])
    searched = rocchio_sessions(engine, READER, ASKED, [variant], CONFIG)
    opened = Environment(engine, READER, SETTINGS).open(ASKED)
    choices = BatchedSearch(engine, READER, [variant], CONFIG).choose(opened)
    for [session], choice in zip(searched, choices, strict=True):
        if session.ended not in ("best", "steps"):
            assert choice is None
        elif not session.steps:
            assert choice == Choice(None)
        else:
            first = session.steps[0]
            assert choice is not None
            assert choice.chosen == (first.refinement, pytest.approx(first.state.score.total))
            assert choice.others == first.others


def test_along_a_session_it_is_the_sessions_next_step(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, READER, SETTINGS)
    rocchio = BatchedSearch(engine, READER, [Variant(G4)], CONFIG)
    questions = ASKED[:8]
    for question, [session] in zip(questions, rocchio.play(questions), strict=True):
        [played] = environment.open([question])
        for step in session.steps:
            [choice] = rocchio.choose([played])
            assert choice is not None
            assert choice.chosen is not None
            assert choice.chosen[0] == step.refinement
            [played] = environment.step([played], [step.refinement])
        if session.ended == "best":
            assert rocchio.choose([played]) == [Choice(None)]


def test_in_states_that_another_agent_reached_the_scores_are_those_that_follow(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, READER, SETTINGS)
    sessions = environment.open(ASKED[:8])
    sessions = environment.step(sessions, Wanderer().act(environment.observe(sessions)))
    going = [session for session in sessions if not session.ended]
    chosen = 0
    for session, choice in zip(going, BatchedSearch(engine, READER, [Variant(G2)], CONFIG).choose(going), strict=True):
        for refinement, score in (choice.chosen, *choice.others) if choice and choice.chosen else ():
            [after] = environment.step([session], [refinement])
            assert after.score is not None
            assert after.score.total == pytest.approx(score)
            chosen += 1
    assert chosen > 10
