"""What a confidence is worth, and an index without its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS, Wanderer
from typer.testing import CliRunner

from orienteer.cli import app
from orienteer.data import Passage, Question
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.evaluation.confidence import Judgements, fit_confidence
from orienteer.evaluation.confidence_report import auroc, calibration_error, declined_at_loss, report
from orienteer.evaluation.small_corpora import draw_corpus
from orienteer.evaluation.unanswerable import WithoutAnswers
from orienteer.query import Query, Refinement
from orienteer.reader.answer_matching import holds_answer
from orienteer.session import Environment, Settings, run_sessions
from orienteer.session.confidence import FEATURES


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = tmp_path_factory.mktemp("lighthouses") / "index"
    build_index(PASSAGES, folder)
    return open_index(folder, threads=1)


def test_no_hit_holds_an_answer_once_the_answers_are_removed(engine: EmbeddedEngine) -> None:
    asked = [each for each in QUESTIONS if each.answers]
    without = WithoutAnswers(engine, asked)
    for question in asked:
        query = Query(question.question)
        whole = list(engine.search(query, len(PASSAGES)))
        kept = [hit for hit in whole if not holds_answer(engine.passages([hit.id])[0].text, question.answers)]
        assert without.search(query, 3) == kept[:3]
        assert len(kept) < len(whole)


def test_the_gold_passage_and_possessives_go_with_the_answers(engine: EmbeddedEngine, tmp_path: Path) -> None:
    asked = next(each for each in QUESTIONS if each.answers)
    first = engine.search(Query(asked.question), 1)[0].id
    unmatched = replace(asked, answers=("no such answer",), passage_id=first)
    assert first not in [hit.id for hit in WithoutAnswers(engine, [unmatched]).search(Query(asked.question), 9)]
    texts = [Passage("possessive", "", "Vik's lamp was mended."), Passage("other", "", "A lamp was lit.")]
    build_index(texts, tmp_path / "index")
    without = WithoutAnswers(open_index(tmp_path / "index"), [Question("q", "whose lamp", ("Vik",))])
    assert [hit.id for hit in without.search(Query("whose lamp"), 5)] == ["other"]


def test_a_threshold_that_may_lose_more_declines_more() -> None:
    answerable, removed = judgements(2000), judgements(2000, seed=1)
    model = fit_confidence(answerable)
    declined = declined_at_loss(model, answerable, removed)
    assert list(declined.values()) == sorted(declined.values())
    assert declined[0.1] == pytest.approx(float((model.probabilities(removed.rows) < model.threshold).mean()))


def test_the_intervals_hold_the_values() -> None:
    told = report(fit_confidence(judgements(3000)), judgements(300, seed=1))
    assert told.auroc_interval[0] < told.auroc < told.auroc_interval[1]
    assert told.precision_interval[0] <= told.precision["50 %"] <= told.precision_interval[1]


def test_refine_gives_what_search_gives_without_the_answers(engine: EmbeddedEngine) -> None:
    without = WithoutAnswers(engine, QUESTIONS)
    query = Query(QUESTIONS[0].question)
    options = [
        Refinement("+", "contents", "lamp"),
        Refinement("-", "title", "ardle"),
        Refinement("or", "contents", "rock"),
    ]
    assert without.refine(query, options, 4) == [without.search(query.refine(each), 4) for each in options]


def test_other_questions_keep_all_their_hits(engine: EmbeddedEngine) -> None:
    without = WithoutAnswers(engine, QUESTIONS[:1])
    query = Query(QUESTIONS[1].question)
    assert without.search(query, 5) == list(engine.search(query, 5))


def test_every_answer_is_wrong_once_the_answers_are_removed(engine: EmbeddedEngine) -> None:
    asked = [each for each in QUESTIONS if each.answers]
    without = WithoutAnswers(engine, asked)
    environment = Environment(without, LexicalReader(), Settings(steps=3))
    judged = Judgements.of(run_sessions(environment, Wanderer(), asked).sessions, removed=True)
    assert len(judged) == len(asked)
    assert not judged.holds.any()
    assert judged.removed.all()


def judgements(count: int, seed: int = 0) -> Judgements:
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, len(FEATURES)))
    right = draw.random(count) < 1 / (1 + np.exp(-3 * rows[:, 2]))
    return Judgements(
        tuple(map(str, range(count))), rows, right, right, right, np.zeros(count, np.bool_), np.ones(count, np.bool_)
    )


def test_the_threshold_declines_the_share_of_right_answers_that_it_may() -> None:
    fitted_on, other = judgements(3000), judgements(3000, seed=1)
    model = fit_confidence(fitted_on, loss=0.1)
    assert report(model, fitted_on).right_declined == pytest.approx(0.1, abs=0.001)
    held_out = report(model, other)
    assert held_out.right_declined == pytest.approx(0.1, abs=0.03)
    assert held_out.auroc > 0.85 > held_out.auroc_ps
    assert held_out.calibration_error < 0.05
    assert held_out.precision["25 %"] > held_out.precision["100 %"] == pytest.approx(held_out.right)
    risks = [risk for _, risk in held_out.risk_coverage]
    assert risks[0] < risks[-1] == pytest.approx(1 - held_out.right)


def test_auroc_counts_pairs_and_ties_half() -> None:
    scores, truths = np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, True, False, True])
    assert auroc(scores, truths) == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert np.isnan(auroc(scores, np.ones(4, np.bool_)))


def test_a_confidence_that_is_always_too_high_by_a_third_has_that_calibration_error() -> None:
    right = np.arange(900) % 3 == 0
    assert calibration_error(np.full(900, 2 / 3), right) == pytest.approx(1 / 3, abs=0.02)


def test_judgements_come_back_from_their_rows_and_the_last_are_those_of_the_ends(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=3))
    asked = [each for each in QUESTIONS if each.answers]
    played = Judgements.of(run_sessions(environment, Wanderer(), asked).sessions, False, (0, None))
    again = Judgements.from_rows([json.loads(json.dumps(row)) for row in played.to_rows()])
    assert np.allclose(again.rows, played.rows, atol=1e-6)
    assert (again.questions, again.right.tolist()) == (played.questions, played.right.tolist())
    assert played.last.questions == tuple(each.question for each in asked)
    assert len(played) == 2 * len(asked)


def test_a_small_corpus_answers_its_questions_and_has_its_size(engine: EmbeddedEngine) -> None:
    asked = [each for each in QUESTIONS if each.answers]
    corpus = draw_corpus(engine, asked, (), 8, seed=1)
    assert len(corpus.engine) == 8
    assert corpus.answered
    for question in corpus.answered:
        texts = [corpus.engine.passage_at(number).text for number in range(8)]
        assert any(holds_answer(text, question.answers) for text in texts)


@pytest.mark.long
def test_the_command_writes_weights_and_a_report(tmp_path: Path) -> None:
    from orienteer.bundled import bundled_questions

    pytest.importorskip("matplotlib")
    asked = tmp_path / "questions.jsonl"
    lines = [
        {"id": each.id, "question": each.question, "answers": each.answers} for each in bundled_questions("train")[:24]
    ]
    asked.write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(PASSAGES, tmp_path / "index")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app,
        [
            "train", "confidence", "--questions", str(asked), "--count", "10", "--index", str(tmp_path / "index"),
            "--steps", "1", "--agent", "bm25+ps", "--judge", str(asked), "--judge-agent", "bm25+ps",
            "--judge-count", "14", "--bundled", "10", "--corpora", "1", "--small", "2", "--removed", "5",
            "--out", str(out),
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert set(json.loads((out / "confidence.json").read_text())["features"]) == set(FEATURES)
    told = json.loads((out / "report.json").read_text())
    assert told["answers removed"]["right"] <= told["both"]["right"]
    assert told["manuals, odd questions"]["questions"] == 10
    assert told["manuals"]["questions"] == 24
    assert "right among the surest 50 %" in (out / "report.md").read_text()
    assert (out / "risk-coverage.svg").is_file()
    again = CliRunner().invoke(
        app,
        [
            "train", "confidence", "--weights", str(out / "confidence.json"), "--index", str(tmp_path / "index"),
            "--steps", "1", "--judge", str(asked), "--judge-agent", "bm25+ps", "--judge-count", "14", "--bundled", "10",
            "--removed", "5", "--out", str(out),
        ],
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert json.loads((out / "report.json").read_text()) == told


def test_the_command_wants_questions_or_weights(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "confidence", "--index", str(tmp_path), "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "--weights" in str(done.exception)
