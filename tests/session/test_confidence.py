"""How sure an answer is: features, fit, words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS, Wanderer

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine
from orienteer.errors import ModelCorruptError
from orienteer.reader.protocol import Reading
from orienteer.session import Environment, SeenPassage, Session, Settings, from_line, record, run_sessions, to_line
from orienteer.session.confidence import (
    FEATURES,
    SHIPPED,
    ConfidenceModel,
    features,
    fit,
    load_model,
    session_at,
    shipped_model,
)
from orienteer.session.display import answer_lines


def seen(id: str, text: str, answer: str, ps: float, span: float = -0.1) -> SeenPassage:
    start = max(0, text.find(answer))
    logit = float(np.log(ps / (1 - ps)))
    return SeenPassage(Passage(id, "", text), Reading(ps, logit, answer, start, start + len(answer), span), 0, 1)


def session(*rows: SeenPassage, question: str = "who lit the lamp of Ardle") -> Session:
    best = tuple(sorted(rows, key=lambda each: -each.reading.score))
    return Session(Question("q", question), (), rows, best)


def named(played: Session) -> dict[str, float]:
    return dict(zip(FEATURES, features(played).tolist(), strict=True))


AGREEING = session(
    seen("a", "The lamp of Ardle was lit by Maren Holt.", "Maren Holt", 0.8),
    seen("b", "Maren Holt kept the lamp.", "Maren Holt", 0.6),
    seen("c", "A storm came.", "A storm", 0.1),
)
ALONE = session(
    seen("a", "The tower was built by Tomas Reed.", "Tomas Reed", 0.3, -5.0),
    seen("b", "Ida Strand drew a beacon.", "Ida Strand", 0.29),
)


def test_every_passage_votes_for_its_own_answer_with_its_ps_and_the_certainty_of_the_place() -> None:
    sure = float(np.exp(-0.1))
    assert named(AGREEING)["answer"] == pytest.approx(np.log((1.4 * sure + 0.01) / (0.1 * sure + 0.2)))
    assert named(ALONE)["answer"] == pytest.approx(np.log((0.3 * np.exp(-5) + 0.01) / (0.29 * sure + 0.2)))


def test_the_odds_of_the_passages_with_the_answer_are_told_as_a_share() -> None:
    assert named(AGREEING)["odds"] == pytest.approx((4 + 1.5) / (4 + 1.5 + 1 / 9))
    assert named(session(seen("a", "It stood.", "", 0.5)))["odds"] == 1  # an answer without words has its own vote


def test_more_passages_that_say_nothing_change_little() -> None:
    idle = [seen(f"x{number}", "Rain fell.", "Rain", 0.0005) for number in range(100)]
    more = session(*AGREEING.seen, *idle)
    assert np.allclose(features(more), features(AGREEING), atol=0.2)
    assert shipped_model().probability(more) == pytest.approx(shipped_model().probability(AGREEING), abs=0.05)


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("when was it built", "in 1871", True),
        ("when was it built", "a storm", False),
        ("how many steps has it", "two hundred", True),
        ("who built it", "Tomas Reed", True),
        ("who built it", "red stone", False),
        ("what colour is it", "red", None),
    ],
)
def test_a_question_tells_which_kind_of_answer_it_wants(question: str, answer: str, fits: bool | None) -> None:
    found = named(session(seen("a", f"It: {answer}.", answer, 0.5), question=question))
    assert (found["kind fits"], found["kind does not fit"]) == (fits is True, fits is False)


def test_agreement_and_a_clear_margin_are_believed_more_than_one_of_two_equal_answers() -> None:
    model = shipped_model()
    assert model.probability(AGREEING) > 2 * model.probability(ALONE)


def test_nothing_found_is_no_answer() -> None:
    judged = shipped_model()(Session(Question("q", "who")))
    assert (judged.probability, judged.answers) == (0.0, False)


def test_the_words_follow_the_probability_and_below_the_threshold_none_is_given() -> None:
    model = replace(shipped_model(), threshold=0.2)
    words = [model.judged(p).words for p in (0.9, 0.7, 0.5, 0.3, 0.1)]
    assert words[:4] == ["very likely right", "likely right", "may be right", "doubtful"]
    assert words[4] == "the documents do not seem to answer this"
    assert [model.judged(p).answers for p in (0.21, 0.19)] == [True, False]


def test_a_fit_finds_the_feature_that_decides_and_is_calibrated() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(4000, len(FEATURES)))
    right = draw.random(4000) < 1 / (1 + np.exp(-(2 * rows[:, 1] - 1)))
    model = fit(rows, right.tolist(), range(4000))
    assert int(np.argmax(np.abs(model.weights))) == 1
    assert model.weights[1] == pytest.approx(2, abs=0.2)
    given = model.probabilities(rows)
    for low, high in ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0)):
        some = (given >= low) & (given < high)
        assert given[some].mean() == pytest.approx(right[some].mean(), abs=0.05)


def test_rows_of_one_question_count_as_one_together() -> None:
    rows = np.random.default_rng(1).normal(size=(60, len(FEATURES)))
    right = [bool(row[0] > 0) for row in rows]
    once = fit(rows, right, range(60))
    thrice = fit(np.repeat(rows, 3, 0), np.repeat(right, 3).tolist(), np.repeat(range(60), 3).tolist())
    assert np.allclose(once.weights, thrice.weights, atol=1e-6)


def test_the_shipped_weights_are_small_and_come_back_as_they_were_written(tmp_path: Path) -> None:
    assert SHIPPED.stat().st_size < 8_000
    model = shipped_model()
    file = tmp_path / "confidence.json"
    file.write_text(json.dumps(model.as_dict()))
    assert load_model(file) == model


@pytest.mark.parametrize("text", ["", "{}", '{"threshold": 0.2, "bias": 0, "features": {"ps": [1]}}'])
def test_damaged_weights_are_one_clear_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "confidence.json"
    file.write_text(text)
    with pytest.raises(ModelCorruptError, match="orienteer train confidence"):
        load_model(file)


def test_a_session_at_a_step_is_what_it_was_then(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=4))
    [played] = run_sessions(environment, Wanderer(), QUESTIONS[:1]).sessions
    [opened] = environment.open(QUESTIONS[:1])
    then = session_at(played, 0)
    assert (then.seen, then.best, then.steps) == (opened.seen, opened.best, opened.steps)
    last = session_at(played, len(played.steps) - 1)
    assert (last.seen, last.best) == (played.seen, played.best)


def test_a_record_keeps_the_confidence_and_shows_it_first(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=2))
    [played] = run_sessions(environment, Wanderer(), QUESTIONS[:1]).sessions
    kept = replace(record(played, environment, "wanderer"), confidence=0.97)
    assert from_line(to_line(kept)) == kept
    assert next(iter(answer_lines(kept))).plain.startswith(f"Answer: {kept.answer}  very likely right (97%)")
    declined = next(iter(answer_lines(replace(kept, confidence=0.001)))).plain
    assert declined.startswith("The documents do not seem to answer this.")
    assert kept.answer in declined


def test_a_model_is_a_function_of_its_numbers() -> None:
    size = len(FEATURES)
    model = ConfidenceModel((0.0,) * size, (0.0,) * size, (1.0,) * size, 0.0, 0.4)
    assert model.probability(ALONE) == 0.5
