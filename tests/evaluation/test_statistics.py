"""Comparisons, answer overlap and headroom over whole evaluations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from evaluated_world import AGENTS, FORTY, WANDERER, run
from small_world import QUESTIONS, Scripted, plus

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import MEASURES, headroom
from orienteer.evaluation.statistics import ceiling_of, overlapping
from orienteer.session import Settings, read_records


def test_headroom_closed_is_the_share_of_the_way_to_rocchio() -> None:
    metrics = {
        "bm25+ps": {"Top-5": 50.0},
        "mine": {"Top-5": 60.0},
        "worse": {"Top-5": 40.0},
        "rocchio": {"Top-5": 90.0},
    }
    assert headroom(metrics, "rocchio") == {"mine": {"Top-5": 0.25}, "worse": {"Top-5": -0.25}}


def test_without_room_or_without_rocchio_there_is_no_headroom() -> None:
    metrics = {"bm25+ps": {"Top-5": 50.0}, "mine": {"Top-5": 60.0}, "rocchio": {"Top-5": 50.0}}
    assert headroom(metrics, "rocchio") == {"mine": {}}
    assert headroom(metrics, "") == {}


def test_the_ceiling_is_g4_where_there_is_a_choice() -> None:
    assert ceiling_of(["bm25", "rocchio-G0", "rocchio-G4"]) == "rocchio-G4"
    assert ceiling_of(["rocchio-G0", "rocchio"]) == "rocchio"
    assert ceiling_of(["bm25", "rocchio-G1"]) == "rocchio-G1"
    assert ceiling_of(["bm25"]) == ""


def test_an_answer_overlaps_when_it_is_the_same_once_normalised() -> None:
    questions = [
        Question("1", "a", ("The Halcyon!",)), Question("2", "b", ("Halcyon days",)), Question("3", "c"),
        Question("4", "d", ("nobody", "halcyon")),
    ]  # fmt: skip
    training = [Question("t", "x", ("halcyon", ""))]
    assert overlapping(questions, training).tolist() == [True, False, False, True]


@pytest.mark.long
def test_results_by_overlap_add_up_to_those_of_all(engine: ReferenceEngine, tmp_path: Path) -> None:
    evaluation = run(engine, tmp_path, training=QUESTIONS[:2])
    groups = evaluation.statistics.overlap
    assert [count for count, _ in groups.values()] == [
        sum(bool(q.answers) and q.answers[0] in ("Maren Holt", "Oskar Lind") for q in FORTY),
        evaluation.run["judged"] - sum(q.answers[:1] in (("Maren Holt",), ("Oskar Lind",)) for q in FORTY),
    ]
    known = [r for r in read_records(tmp_path / "sessions" / "wanderer.jsonl")
             if r.question.answers[:1] in (("Maren Holt",), ("Oskar Lind",))]  # fmt: skip
    mean = sum(MEASURES["score"].of(record) or 0.0 for record in known) / len(known)
    assert groups["answer in the training set"][1]["wanderer"]["score"] == pytest.approx(100 * mean)
    for agent, metrics in evaluation.metrics.items():
        total = sum(count * means[agent]["score"] for count, means in groups.values())
        assert total / evaluation.run["judged"] == pytest.approx(metrics["score"])


def test_a_group_without_questions_has_no_means(engine: ReferenceEngine, tmp_path: Path) -> None:
    evaluation = run(engine, tmp_path, training=[])
    assert evaluation.statistics.overlap["answer in the training set"] == (0, {})
    assert "By answer overlap" in (tmp_path / "report.md").read_text()


@pytest.mark.long
def test_every_agent_is_compared_with_each_baseline(engine: ReferenceEngine, tmp_path: Path) -> None:
    evaluation = run(engine, tmp_path, agents=[*AGENTS, "bm25@100+ps"])
    comparisons = evaluation.statistics.comparisons
    assert len(comparisons) == 2 * 4 * 5
    for each in comparisons:
        mine, theirs = evaluation.metrics[each.agent], evaluation.metrics[each.baseline]
        assert each.difference == pytest.approx(mine[each.measure] - theirs[each.measure])
        assert each.low <= each.difference + 1e-9
        assert each.difference - 1e-9 <= each.high
        assert each.p <= each.p_holm <= 1
    stored = json.loads((tmp_path / "statistics.json").read_text())
    assert len(stored["comparisons"]) == len(comparisons)
    report = (tmp_path / "report.md").read_text()
    for baseline in ("bm25+ps", "bm25@100+ps"):
        told = report.split(f"### Against <code>{baseline}</code>")[1].split("##")[0]
        assert told.count("| <code>") == 4
    low, high = stored["intervals"]["wanderer"]["score"]
    assert low <= evaluation.metrics["wanderer"]["score"] <= high


def test_without_a_baseline_the_first_agent_is_it(engine: ReferenceEngine, tmp_path: Path) -> None:
    evaluation = run(engine, tmp_path, agents=["bm25", WANDERER])
    assert {each.baseline for each in evaluation.statistics.comparisons} == {"bm25"}


class Gifted(Scripted):
    """Requires a word of the answer, as a search that knows the answers might."""

    def __init__(self) -> None:
        super().__init__(plus("maren"), plus("holt"))


def test_an_agent_named_rocchio_fills_headroom_and_its_table(engine: ReferenceEngine, tmp_path: Path) -> None:
    questions = [replace(q, id=f"{q.id}-{n}") for n in range(3) for q in QUESTIONS[:1]]
    questions.append(Question("far", "who gave a storm", ("Maren Holt",)))
    rocchio = [ConfiguredAgent(f"rocchio-{g}", Gifted(), Settings(steps=4, allow_stop=True)) for g in ("G0", "G4")]
    evaluation = run(engine, tmp_path, agents=["bm25+ps", "prf-answer", *rocchio], questions=questions)
    assert evaluation.statistics.ceiling == "rocchio-G4"
    gained = evaluation.metrics["rocchio-G4"]["score"] - evaluation.metrics["bm25+ps"]["score"]
    assert gained > 0
    mine = evaluation.metrics["prf-answer"]["score"] - evaluation.metrics["bm25+ps"]["score"]
    assert evaluation.statistics.headroom["prf-answer"]["score"] == pytest.approx(mine / gained)
    assert evaluation.statistics.headroom["rocchio-G0"]["score"] == pytest.approx(1.0)
    report = (tmp_path / "report.md").read_text()
    assert "The ceiling is <code>rocchio-G4</code>." in report
    assert "| ours, dev, 4 sessions | 8 | – | – | – | 8 |" in report
    assert "| ours, dev, steps a session | 2.00 | – | – | – | 2.00 |" in report
