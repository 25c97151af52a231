"""EM-T5: what an answer generator makes of each session's final passages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from evaluated_world import FORTY, WANDERER, run, tree
from small_world import Scripted, plus

from orienteer.engine import ReferenceEngine
from orienteer.query.refinement import clean
from orienteer.reader.answer_matching import exact_match
from orienteer.session import ObservedPassage, read_records


class OneAnswer:
    """Knows one name, and says it wherever there is a passage."""

    fingerprint, words = "one name", 6

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[ObservedPassage]]] = []

    def answer(self, batch: Sequence[tuple[str, Sequence[ObservedPassage]]]) -> list[str]:
        self.asked += batch
        return ["the Maren Holt" if passages else "" for _, passages in batch]


@pytest.mark.long
def test_exact_match_is_that_of_the_generators_answers(engine: ReferenceEngine, tmp_path: Path) -> None:
    generator = OneAnswer()
    result = run(engine, tmp_path, answerer=generator)
    assert all(len(each.snippet.split()) <= 6 for _, passages in generator.asked for each in passages)
    records = list(read_records(tmp_path / "sessions" / "wanderer.jsonl"))
    judged = [record for record in records if record.question.answers]
    exact = [bool(record.best) and exact_match("Maren Holt", record.question.answers) for record in judged]
    assert 0 < sum(exact) < len(exact)
    assert result.metrics["wanderer"]["EM-T5"] == pytest.approx(100 * sum(exact) / len(judged))
    told = json.loads((tmp_path / "metrics.json").read_text())
    assert all("EM-T5" in told[agent] for agent in ("bm25", "bm25+ps", "prf-idf-t", "wanderer"))
    report = (tmp_path / "report.md").read_text()
    assert "**EM-T5**: the answer generator's answer" in report


@pytest.mark.long
def test_answers_are_generated_once_for_the_same_passages(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path, answerer=OneAnswer())
    first = tree(tmp_path)
    again = OneAnswer()
    run(engine, tmp_path, answerer=again)
    assert not again.asked
    assert tree(tmp_path) == first
    other = OneAnswer()
    other.fingerprint = "another"
    run(engine, tmp_path, answerer=other)
    shown = [(question, tuple(passages)) for question, passages in other.asked]
    assert len(set(shown)) == len(shown)
    assert {question for question, _ in shown} == {clean(question.question) for question in FORTY}


def test_agents_that_end_with_the_same_passages_share_their_answers(engine: ReferenceEngine, tmp_path: Path) -> None:
    twin = replace(WANDERER, name="twin")
    generator = OneAnswer()
    result = run(engine, tmp_path, agents=[WANDERER, twin], answerer=generator)
    alone = OneAnswer()
    run(engine, tmp_path / "alone", agents=[WANDERER], answerer=alone)
    assert generator.asked == alone.asked
    assert result.metrics["twin"]["EM-T5"] == result.metrics["wanderer"]["EM-T5"] > 0
    kept = [(tmp_path / "answers" / f"{name}.jsonl").read_bytes().splitlines() for name in ("wanderer", "twin")]
    assert kept[0] == kept[1]


def test_other_sessions_or_a_torn_file_are_answered_anew(engine: ReferenceEngine, tmp_path: Path) -> None:
    first = OneAnswer()
    run(engine, tmp_path, agents=[WANDERER], answerer=first)
    file = tmp_path / "answers" / "wanderer.jsonl"
    whole = file.read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:9]))
    again = OneAnswer()
    run(engine, tmp_path, agents=[WANDERER], answerer=again)
    assert again.asked == first.asked
    assert file.read_bytes() == whole
    for played in ("sessions", "summaries"):
        next((tmp_path / played).iterdir()).unlink()
    other = OneAnswer()
    run(engine, tmp_path, agents=[replace(WANDERER, agent=Scripted(plus("maren")))], answerer=other)
    assert other.asked
    assert other.asked != first.asked


def test_without_a_generator_the_measure_is_absent(engine: ReferenceEngine, tmp_path: Path) -> None:
    result = run(engine, tmp_path)
    assert all("EM-T5" not in row for row in result.metrics.values())
    assert not (tmp_path / "answers").exists()
    assert "**EM-T5**: the answer" not in (tmp_path / "report.md").read_text()
