"""Relevance by judgements: TREC's nDCG in the score, no NDCEM, records that replay."""

from __future__ import annotations

from math import log2

import pytest
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS, plus

from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.session import Environment, Settings, check_replay, from_line, ndcg, record, to_line
from orienteer.session.relevance import gain_by_id, is_relevant

JUDGED = Question("j1", "who lit the first lamp", judgements=(("ardle-1", 2), ("dunmore-1", 1), ("eider-1", 0)))


@pytest.fixture
def environment() -> Environment:
    return Environment(ReferenceEngine(PASSAGES), LexicalReader(), Settings(steps=3))


def test_judgements_decide_relevance_whatever_the_text_says() -> None:
    question = Question("q", "x", ("Maren Holt",), judgements=(("b", 1),))
    assert is_relevant(question, Passage("b", "", "nothing")) is True
    assert is_relevant(question, Passage("a", "", "Maren Holt")) is False
    assert is_relevant(Question("q", "x"), Passage("a", "", "Maren Holt")) is None


def test_ndcg_by_gains_is_trecs_with_grades() -> None:
    ranking = ["eider-1", "dunmore-1", "ardle-1", "brisk-1", "brisk-2"]
    gains = [gain_by_id(JUDGED, id, False) for id in ranking]
    found = 1 / log2(3) + 2 / log2(4)
    ideal = 2 / log2(2) + 1 / log2(3)
    assert ndcg(gains) == pytest.approx(found / ideal)
    assert ndcg([gain_by_id(JUDGED, id, False) for id in ("ardle-1", "dunmore-1")]) == pytest.approx(1)


def test_without_answers_the_share_of_ndcem_goes_to_ndcg(environment: Environment) -> None:
    [session] = environment.open([JUDGED])
    score = session.score
    assert score is not None
    assert score.ndcem is None
    assert score.ndcg > 0
    assert score.total == pytest.approx(0.8 * score.ndcg + 0.2 * score.ps)
    assert all(each.exact is None for each in session.seen)


def test_judgements_and_answers_together_give_the_whole_score(environment: Environment) -> None:
    [session] = environment.open(
        [Question("j", "who lit the first lamp", ("Maren Holt",), judgements=(("ardle-1", 1),))]
    )
    score = session.score
    assert score is not None
    assert score.ndcem is not None
    assert score.total == pytest.approx(0.2 * score.ndcg + 0.6 * score.ndcem + 0.2 * score.ps)


def test_a_judged_session_is_recorded_and_replayed_byte_for_byte(environment: Environment) -> None:
    [session] = environment.open([JUDGED])
    [session] = environment.step([session], [plus("storm")])
    line = to_line(record(session, environment, "test"))
    read = from_line(line)
    assert read.question.judgements == JUDGED.judgements
    assert read.steps[0].score is not None
    assert read.steps[0].score.ndcem is None
    assert to_line(read) == line
    check_replay(read, environment.engine, environment.reader)


def test_a_question_with_neither_has_no_score(environment: Environment) -> None:
    [session] = environment.open([QUESTIONS[4]])
    assert session.score is None
