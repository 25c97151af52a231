"""Rocchio among the agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated_world import ASKED, CONFIG, Bundled, run
from hash_reader import HashReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS

from orienteer.agents import check_agent
from orienteer.agents.registry import sees_answers
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.evaluation import evaluate
from orienteer.query import G1, G4
from orienteer.rocchio import RocchioAgent, RocchioConfig, RocchioError, Variant, read_sessions, rocchio_sessions
from orienteer.session import Environment, Session, Settings

SETTINGS = Settings(steps=4, snippet=70, allow_stop=True)


def played(agent: RocchioAgent, environment: Environment, questions: list, batch_size: int = 5) -> list[Session]:  # type: ignore[type-arg]
    return [session for batch in agent.play(environment, questions, batch_size=batch_size) for session in batch]


@pytest.mark.long
def test_it_plays_the_sessions_that_it_finds(engine: EmbeddedEngine) -> None:
    questions = ASKED[:12]
    environment = Environment(engine, HashReader(questions), SETTINGS)
    sessions = played(RocchioAgent(G4), environment, questions)
    found = rocchio_sessions(engine, HashReader(questions), questions, [Variant(G4)], RocchioConfig(settings=SETTINGS))
    for session, [searched] in zip(sessions, found, strict=True):
        assert [step.action for step in session.steps[1:]] == [step.refinement for step in searched.steps]
        assert searched.final is not None
        assert session.score == searched.final.score
        assert session.ended in ("stop", "steps")


def test_it_keeps_the_contract_of_an_agent_and_stops_where_it_is_not_told_the_answers(engine: EmbeddedEngine) -> None:
    questions = ASKED[:4]
    environment = Environment(engine, HashReader(questions), SETTINGS)
    check_agent(RocchioAgent(G4), environment, questions)


def test_questions_of_the_same_words_are_told_apart() -> None:
    engine = ReferenceEngine(PASSAGES)
    questions = [replace(QUESTIONS[0], id="a"), replace(QUESTIONS[0], id="b", answers=("Wei Lin",))]
    reader = HashReader(questions)
    agent = RocchioAgent(G4)
    alone = [played(agent, Environment(engine, reader, SETTINGS), [question])[0] for question in questions]
    assert played(agent, Environment(engine, reader, SETTINGS), questions) == alone


def test_hard_questions_are_played_to_an_end() -> None:
    engine = ReferenceEngine(PASSAGES)
    questions = [*HARD_QUESTIONS, *QUESTIONS]
    sessions = played(RocchioAgent(G1), Environment(engine, HashReader(questions), SETTINGS), questions)
    assert len(sessions) == len(questions)
    assert all(session.ended for session in sessions)
    assert not [session for session in sessions if session.ended == "illegal"]


def test_recorded_sessions_are_played_without_searching_again(tmp_path: Path) -> None:
    run(tmp_path / "sessions.jsonl")
    agent = RocchioAgent.from_file(G4, tmp_path / "sessions.jsonl")
    engine, reader = Bundled().open()
    environment = Environment(engine, reader, replace(CONFIG.settings, allow_stop=True))
    sessions = played(agent, environment, ASKED)
    recorded = [each for each in read_sessions(tmp_path / "sessions.jsonl")[1] if each.variant == Variant(G4)]
    assert isinstance(reader, HashReader)
    assert reader.passages == sum(session.passages_read for session in sessions)
    for session, searched in zip(sessions, recorded, strict=True):
        assert session.score == (searched.final.score if searched.final else None)
    with pytest.raises(RocchioError, match="no recorded G4 session of question 'new'"):
        played(agent, environment, [replace(ASKED[0], id="new")])


@pytest.mark.long
def test_in_an_evaluation_it_is_the_headroom_and_known_to_see_the_answers(
    engine: EmbeddedEngine, tmp_path: Path
) -> None:
    questions = ASKED[:10]
    names = ["bm25+ps", "rocchio-G0", "rocchio"]
    settings = Settings(steps=3)
    found = evaluate(engine, HashReader(questions), questions, names, tmp_path, settings=settings, figures=False)
    searched = rocchio_sessions(
        engine, HashReader(questions), questions, [Variant(G4)], RocchioConfig(settings=replace(SETTINGS, steps=3))
    )  # fmt: skip
    reached = [session.final.score.total for [session] in searched if session.final is not None]
    assert found.metrics["rocchio"]["score"] == pytest.approx(100 * sum(reached) / len(questions))
    assert found.metrics["rocchio"]["score"] > found.metrics["bm25+ps"]["score"]
    assert "a search that knows the answers" in (tmp_path / "report.md").read_text()
    assert [sees_answers(name) for name in names] == [False, True, True]
    assert sees_answers("ensemble(bm25|rocchio-G1[steps=3])")
    assert not sees_answers("ensemble(bm25|prf-answer)")
