"""Summaries: what was judged is not played again, tables are the same to the byte, what does not fit is refused."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluated_world import AGENTS, FORTY, SETTINGS, WANDERER, run, tree, without_seconds
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS, Wanderer
from test_answer_em import OneAnswer

from orienteer.agents import ConfiguredAgent
from orienteer.agents.ensemble import Ensemble
from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import EvaluationError, EvaluationProgress, compare
from orienteer.evaluation.measures import MEASURES
from orienteer.evaluation.summaries import Summary, load, pack, save, unpack
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reading
from orienteer.session import Settings


class NoReader(LexicalReader):
    """Whoever plays must read."""

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        raise AssertionError("a session was played")


class Learned(Wanderer):
    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint


@pytest.fixture(scope="module")
def played(engine: ReferenceEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation with all its files, but without example sessions."""
    out = tmp_path_factory.mktemp("played")
    run(engine, out, texts=False, answerer=OneAnswer(), training=QUESTIONS[:2])
    return out


def only_summaries(played: Path, out: Path) -> Path:
    """The folder as it comes to another machine."""
    shutil.copytree(played / "summaries", out / "summaries")
    return out


@pytest.mark.long
def test_from_summaries_alone_all_tables_and_figures_are_the_same_to_the_byte(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    options: dict[str, Any] = {"texts": False, "figures": True, "training": QUESTIONS[:2]}
    run(engine, tmp_path / "journals", **options)
    out = only_summaries(tmp_path / "journals", tmp_path / "summaries")
    evaluation = run(engine, out, reader=NoReader(), **options)
    whole = tree(tmp_path / "journals")
    kept = ("metrics.json", "statistics.json", "figures.json", "report.md", "figures/", "summaries/")
    assert {"metrics.json", "report.md", "figures/depth.svg", "summaries/wanderer.json"} <= set(whole)
    assert tree(out) == {name: data for name, data in whole.items() if name.startswith(kept)}
    assert set(evaluation.seconds) == {"bm25", "bm25+ps", "prf-idf-t", "wanderer"}, "they are in the summaries"
    assert (out / "metrics.json").read_bytes() == (tmp_path / "journals" / "metrics.json").read_bytes()


@pytest.mark.parametrize("gone", [("bm25",), ("wanderer",), ("bm25+ps", "wanderer")])
def test_it_does_not_matter_which_agents_come_from_summaries(
    engine: ReferenceEngine, played: Path, tmp_path: Path, gone: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(played, out)
    for agent in gone:
        (out / "sessions" / f"{agent}.jsonl").unlink()
    left = tree(out)
    run(engine, out, texts=False, answerer=OneAnswer(), training=QUESTIONS[:2], reader=NoReader())
    assert tree(out) == left


@pytest.mark.long
def test_an_agent_added_to_summaries_alone_is_the_only_one_played(
    engine: ReferenceEngine, played: Path, tmp_path: Path
) -> None:
    before, alone, reader = tmp_path / "before", LexicalReader(), LexicalReader()
    run(engine, before, agents=AGENTS[:3], texts=False)
    run(engine, tmp_path / "alone", agents=[WANDERER], texts=False, reader=alone)
    for name in ("sessions", "costs"):
        shutil.rmtree(before / name)
    told: list[EvaluationProgress] = []
    run(engine, before, texts=False, answerer=OneAnswer(), training=QUESTIONS[:2], reader=reader, progress=told.append)
    assert reader.batches == alone.batches
    assert [each.done for each in told[:3]] == [40, 80, 120], "they count as done"
    assert (told[-1].done, told[-1].total) == (160, 160)
    away = {f"sessions/{agent}.jsonl" for agent in ("bm25", "bm25+ps", "prf-idf-t")}
    assert tree(before) == {name: data for name, data in tree(played).items() if name not in away}
    assert [file.name for file in (before / "sessions").iterdir()] == ["wanderer.jsonl"]


def test_judgements_of_sessions_that_are_gone_stay_and_new_ones_come_to_them(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    both = ["bm25", WANDERER]
    run(engine, tmp_path / "whole", agents=both)
    whole = tree(tmp_path / "whole")
    run(engine, tmp_path, agents=both[:1])
    known = (tmp_path / "qrels.trec").read_bytes()
    shutil.rmtree(tmp_path / "sessions")
    run(engine, tmp_path, agents=both[:1])
    assert (tmp_path / "qrels.trec").read_bytes() == known
    run(engine, tmp_path, agents=both)
    assert (tmp_path / "qrels.trec").read_bytes() == whole["qrels.trec"] != known
    assert (tmp_path / "runs" / "bm25.trec").read_bytes() == whole["runs/bm25.trec"]
    (tmp_path / "qrels.trec").write_text("q1 0 x\n")
    with pytest.raises(EvaluationError, match=r"qrels\.trec, line 1: no judgement"):
        run(engine, tmp_path, agents=both)


@pytest.mark.long
def test_the_report_shows_sessions_that_are_here_and_says_where_there_are_none(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    run(engine, tmp_path)
    (tmp_path / "sessions" / "wanderer.jsonl").unlink()
    run(engine, tmp_path, reader=NoReader())
    report = (tmp_path / "report.md").read_text()
    assert "(examples/prf-idf-t.md)" in report
    assert "(examples/wanderer.md)" not in report
    shutil.rmtree(tmp_path / "sessions")
    run(engine, tmp_path, reader=NoReader())
    assert "No agent whose sessions are here refined a question" in (tmp_path / "report.md").read_text()


def test_exact_match_of_generated_answers_is_the_same_from_summaries(
    engine: ReferenceEngine, played: Path, tmp_path: Path
) -> None:
    whole, generator = tree(played), OneAnswer()
    out = only_summaries(played, tmp_path)
    run(engine, out, texts=False, answerer=generator, training=QUESTIONS[:2], reader=NoReader())
    assert {question for question, _ in generator.asked} == {clean(question.question) for question in FORTY}
    again = tree(out)
    assert again["metrics.json"] == whole["metrics.json"]
    assert b'"EM-T5"' in again["metrics.json"]
    for agent in ("bm25", "bm25+ps", "prf-idf-t", "wanderer"):
        assert again[f"answers/{agent}.jsonl"] == whole[f"answers/{agent}.jsonl"]
    shutil.copytree(played / "answers", tmp_path / "other" / "answers")
    idle = OneAnswer()
    run(engine, only_summaries(played, tmp_path / "other"), answerer=idle, reader=NoReader())
    assert not idle.asked, "answers made from the sessions are answers for the summaries"


def test_the_journal_counts_where_both_are_and_the_summary_is_written_anew(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    run(engine, tmp_path)
    whole = tree(tmp_path)
    (tmp_path / "summaries" / "wanderer.json").write_text("{")
    run(engine, tmp_path)
    assert tree(tmp_path) == whole


@pytest.mark.long
def test_a_journal_that_was_begun_is_played_to_its_end_beside_a_summary(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    run(engine, tmp_path)
    whole = tree(tmp_path)
    file = tmp_path / "sessions" / "wanderer.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.unlink()
    file.with_name("wanderer.jsonl.partial").write_bytes(b"".join(lines[:16]))
    run(engine, tmp_path)
    assert tree(tmp_path) == whole


class Named(ReferenceEngine):
    fingerprint = "another index"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reader": LexicalReader("another")}, "judged with the reader 'lexical stand-in', this is 'another'"),
        ({"settings": replace(SETTINGS, seed=1)}, "judged with the settings"),
        ({"questions": [replace(FORTY[0], question="who knows"), *FORTY[1:]]}, "judged with the questions"),
        ({"questions": [replace(FORTY[0], answers=("Nobody",)), *FORTY[1:]]}, "judged with the questions"),
        ({"questions": FORTY[:-1]}, "judged with the questions"),
        ({"questions": [*FORTY, Question("new", "who")]}, "judged with the questions"),
        ({"engine": Named(PASSAGES)}, "judged with the index '', this is 'another index'"),
        ({"agents": [replace(WANDERER, agent=Learned("new"))]}, "judged with the weights '', this is 'new'"),
    ],
)  # fmt: skip
def test_a_summary_of_another_evaluation_is_refused_before_any_work(
    engine: ReferenceEngine, played: Path, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    out = only_summaries(played, tmp_path)
    before = tree(out)
    given = {"engine": engine, "reader": LexicalReader(), "agents": AGENTS, **options}
    with pytest.raises(EvaluationError, match=f"{says}.*; delete it to play it again, or evaluate into another folder"):
        run(given.pop("engine"), out, **{**given, "agents": ["prf-idf-or", *given["agents"]]})
    assert given["reader"].batches == []
    assert tree(out) == before


def test_a_summary_under_the_name_of_another_agent_is_refused(
    engine: ReferenceEngine, played: Path, tmp_path: Path
) -> None:
    out = only_summaries(played, tmp_path)
    shutil.copy(out / "summaries" / "bm25.json", out / "summaries" / "bm25+ps.json")
    with pytest.raises(EvaluationError, match=r"bm25\+ps\.json: judged with the agent 'bm25', this is 'bm25\+ps'"):
        run(engine, out)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: row["values"].pop("Top-5"), "KeyError: 'Top-5'"),
        (lambda row: row["values"]["Top-5"].pop(), "Top-5 of size 39, expected 40"),
        (lambda row: row["values"]["Top-5"].__setitem__(0, "x"), "could not convert"),
        (lambda row: row["final"].pop(), "final of size 39, expected 40"),
        (lambda row: row["final"].__setitem__(0, [["ardle-1", 0]]), "not enough values"),
        (lambda row: row["depths"].pop(), "depths of size"),
        (lambda row: row["step_sums"].pop(), "step_sums of size"),
        (lambda row: row.update(gains=None), "TypeError"),
        (lambda row: row.update(version=2), "not an orienteer summary of version 1"),
        (lambda row: row.pop("format"), "not an orienteer summary of version 1"),
    ],
)  # fmt: skip
def test_a_summary_with_something_missing_or_wrong_is_named(
    engine: ReferenceEngine, played: Path, tmp_path: Path, change: Any, says: str
) -> None:
    file = only_summaries(played, tmp_path) / "summaries" / "wanderer.json"
    row = json.loads(file.read_text())
    change(row)
    file.write_text(json.dumps(row))
    with pytest.raises(EvaluationError, match=rf"wanderer\.json: .*{says}.*delete it to play it again"):
        run(engine, tmp_path, reader=NoReader())


def test_a_torn_summary_is_named_and_once_deleted_its_agent_is_played(
    engine: ReferenceEngine, played: Path, tmp_path: Path
) -> None:
    file = only_summaries(played, tmp_path) / "summaries" / "wanderer.json"
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"[]", b"\xff" + whole):
        file.write_bytes(damaged)
        with pytest.raises(EvaluationError, match=r"wanderer\.json: not .*delete it to play it again"):
            run(engine, tmp_path, reader=NoReader())
    file.unlink()
    run(engine, tmp_path)
    assert without_seconds("summaries/", file.read_bytes()) == without_seconds("summaries/", whole)


def test_no_text_of_a_question_or_a_passage_is_in_a_summary(played: Path) -> None:
    written = {name: data.decode() for name, data in tree(played).items() if name.startswith("summaries/")}
    assert len(written) == len(AGENTS)
    texts = [q.question for q in QUESTIONS] + [t for p in PASSAGES for t in (p.title, p.text) if t]
    for text in written.values():
        assert '"ardle-1"' in text
        assert not any(json.dumps(each)[1:-1] in text for each in (*texts, "Maren Holt"))


def test_numbers_are_read_back_to_the_bit_and_counts_in_their_order(tmp_path: Path) -> None:
    awkward = [0.1 + 0.2, 5e-324, -0.0, np.nan, 1 / 3]
    entry = ConfiguredAgent("a", Wanderer(), Settings(steps=2))
    made = Summary(
        entry, dict.fromkeys(MEASURES, awkward), Counter({7: 1, 2: 3}), Counter({"undo": 2, "+c": 1}),
        Counter({"stop": 5}), [[1 / 3, -1e-17], []], final=[[("灯塔 \ud800", 1, 2, 2 / 3)], [], [], [], []],
        dead_ends=3, judged=4,
    )  # fmt: skip
    made.step_sums[:] = np.pi
    save(tmp_path / "a.json", {"format": "orienteer summary", "version": 1}, made)
    read = load(tmp_path / "a.json", None, {}, entry, 5)
    for each in fields(Summary):
        assert repr(getattr(read, each.name)) == repr(getattr(made, each.name))
    assert list(read.lengths) == [7, 2]
    assert read.step_sums.tobytes() == made.step_sums.tobytes()


def test_an_ensemble_has_the_weights_of_its_members() -> None:
    def joined(*weights: str) -> str:
        return Ensemble([ConfiguredAgent(w, Learned(w), SETTINGS) for w in weights]).fingerprint

    assert joined("a", "b") != joined("a", "c")
    assert Ensemble([WANDERER]).fingerprint == ""
    assert (
        Ensemble([WANDERER, ConfiguredAgent("dense", Wanderer(), SETTINGS, Named(PASSAGES))]).fingerprint
        == "another index"
    )


def test_packed_summaries_stand_for_the_files(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path, agents=AGENTS[:3])
    before, compared = tree(tmp_path), compare(tmp_path, [["prf-idf-t", "bm25"]])
    shutil.rmtree(tmp_path / "sessions")
    assert pack(tmp_path) == 3
    assert not (tmp_path / "summaries").exists()
    assert compare(tmp_path, [["prf-idf-t", "bm25"]]) == compared
    run(engine, tmp_path, agents=AGENTS[:3])
    assert tree(tmp_path)["metrics.json"] == before["metrics.json"]
    assert not (tmp_path / "sessions").exists(), "nothing was played again"
    run(engine, tmp_path)
    assert pack(tmp_path) == 4, "one more agent, packed with the others"
    assert unpack(tmp_path) == 4
    files = {name: data for name, data in tree(tmp_path).items() if name.startswith("summaries/")}
    assert {name: data for name, data in before.items() if name.startswith("summaries/")}.items() <= files.items()
    assert [each.agent for each in compare(tmp_path, [["wanderer", "bm25"]], ["score"])] == ["wanderer"]


def test_a_damaged_packed_file_is_one_clear_error(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path, agents=["bm25"])
    pack(tmp_path)
    file = tmp_path / "summaries.jsonl.zst"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(EvaluationError, match="evaluate again"):
        compare(tmp_path, [["bm25", "bm25+ps"]])
