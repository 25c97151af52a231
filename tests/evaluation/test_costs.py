"""Costs in tables: what agents count of their work, seconds, fallbacks; and summaries that have none of it yet."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluated_world import FORTY, run
from small_world import PASSAGES, Wanderer

from orienteer import cli
from orienteer.agents import ConfiguredAgent
from orienteer.agents.ensemble import Ensemble
from orienteer.agents.registry import with_option
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import compare
from orienteer.evaluation.summaries import pack
from orienteer.session import Action, AgentCost, Observation, Settings

STEPS = Settings(steps=3)


class Costly(Wanderer):
    """Tells what each of its decisions costs; every third is a fallback."""

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return [
            (action, AgentCost(1, 10, 100 + seen.step, {"blind": 1} if seen.step % 3 == 2 else {}))
            for action, seen in zip(self.act(observations), observations, strict=True)
        ]


COSTLY = ConfiguredAgent("costly", Costly(), STEPS)


def test_what_agents_count_is_in_metrics_report_and_summaries(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path, agents=["bm25+ps", COSTLY])
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    row = json.loads((tmp_path / "summaries" / "costly.json").read_text())
    lengths = dict(row["lengths"])
    acted = sum(length * count for length, count in lengths.items())
    assert metrics["costly"]["refinements_scored"] == pytest.approx(10 * acted / len(FORTY))
    assert metrics["costly"]["queries"] > metrics["costly"]["refinements_scored"] / 10
    assert metrics["bm25+ps"]["refinements_scored"] == metrics["bm25+ps"]["passages_scored"] == 0
    assert sum(row["values"]["passages_scored"]) == pytest.approx(metrics["costly"]["passages_scored"] * len(FORTY))
    assert row["fallbacks"] == [["blind", lengths.get(3, 0)]]
    report = (tmp_path / "report.md").read_text()
    assert "| passages_read | queries | refinements_scored | passages_scored | seconds |" in report
    assert f"blind {lengths[3]}" in report
    assert "refinements_scored" in report.partition("- **queries**")[2]


def test_seconds_leave_the_reader_out(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path, agents=["bm25+ps"])
    spent = json.loads((tmp_path / "costs" / "bm25+ps.json").read_text())
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["bm25+ps"]["seconds"] == pytest.approx((spent["total"] - spent["reader"]) / 40)


def test_an_agent_that_plays_from_a_journal_has_its_costs_and_no_seconds(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    members = [COSTLY, ConfiguredAgent("prf-answer", Wanderer(), STEPS)]
    joined = ConfiguredAgent("ensemble(costly|prf-answer)", Ensemble(members), Settings(steps=7))
    metrics = run(engine, tmp_path, agents=[COSTLY, joined, "prf-idf-t", "prf-idf-t[order=agreement]"]).metrics
    for name in ("refinements_scored", "passages_scored"):
        assert metrics[joined.name][name] == metrics["costly"][name] > 0
    assert "seconds" not in metrics[joined.name]
    assert "seconds" not in metrics["prf-idf-t[order=agreement]"]
    assert "seconds" in metrics["costly"]


def test_a_search_for_the_answers_has_no_counts(engine: ReferenceEngine, tmp_path: Path) -> None:
    metrics = run(engine, tmp_path, agents=["bm25+ps", "rocchio-G2"], settings=Settings(steps=2)).metrics
    assert "refinements_scored" not in metrics["rocchio-G2"]
    assert "refinements_scored" in metrics["bm25+ps"]


@pytest.mark.parametrize("packed", [False, True])
def test_summaries_of_the_first_versions_are_read_and_have_dashes(
    engine: ReferenceEngine, tmp_path: Path, packed: bool
) -> None:
    agents = ["bm25", "bm25+ps", COSTLY]
    run(engine, tmp_path, agents=agents, texts=False)
    whole = json.loads((tmp_path / "metrics.json").read_text())
    for file in (tmp_path / "summaries").iterdir():
        row = json.loads(file.read_text())
        del row["values"]["refinements_scored"], row["values"]["passages_scored"], row["seconds"]
        row.pop("fallbacks", None)
        file.write_text(json.dumps(row))
    shutil.rmtree(tmp_path / "sessions")
    shutil.rmtree(tmp_path / "costs")
    if packed:
        pack(tmp_path)
    run(engine, tmp_path, agents=agents, texts=False)
    again = json.loads((tmp_path / "metrics.json").read_text())
    new = {"refinements_scored", "passages_scored", "seconds"}
    for agent in ("bm25", "bm25+ps", "costly"):
        assert again[agent] == {name: value for name, value in whole[agent].items() if name not in new}
    [line] = [line for line in (tmp_path / "report.md").read_text().splitlines() if "<code>bm25</code> | 2" in line][:1]
    assert line.endswith("| – | – | – |")
    assert compare(tmp_path, [["costly", "bm25"]], ["score"])


class WithVectors(ReferenceEngine):
    fingerprint = "abc+5:an-encoder"


class Plain(ReferenceEngine):
    fingerprint = "abc"


class Another(ReferenceEngine):
    fingerprint = "abcd"


def test_agents_with_and_without_vectors_are_compared(tmp_path: Path) -> None:
    vectors = ConfiguredAgent("with", Wanderer(), STEPS, WithVectors(PASSAGES))
    other = ConfiguredAgent("other", Wanderer(), STEPS, Another(PASSAGES))
    run(Plain(PASSAGES), tmp_path, agents=["bm25", vectors, other], texts=False)
    assert [each.agent for each in compare(tmp_path, [["with", "bm25"]], ["score"])] == ["with"]
    with pytest.raises(Exception, match="judged with several indexes"):
        compare(tmp_path, [["other", "bm25"]], ["score"])


@pytest.mark.parametrize(
    ("name", "is_now"),
    [
        ("pointer", "pointer[dead_ends=stop]"), ("pointer[steps=5]", "pointer[steps=5;dead_ends=stop]"),
        ("t5-G1=folder", "t5-G1=folder[dead_ends=stop]"), ("ensemble(a|b)", "ensemble(a|b)[dead_ends=stop]"),
    ],
)  # fmt: skip
def test_a_setting_is_added_to_a_name(name: str, is_now: str) -> None:
    assert with_option(name, " dead_ends=stop ") == is_now


@pytest.mark.long
def test_one_command_plays_all_agents_with_another_setting_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, index = tmp_path / "q.jsonl", tmp_path / "index"
    rows = [{"id": "1", "question": "who lit the first lamp", "answers": ["Maren Holt"]}]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    from orienteer.engine import build_index

    build_index(PASSAGES, index)
    out = tmp_path / "out"
    command = ["evaluate", "--index", index, "--questions", questions, "--agents", "prf-idf-t,random[steps=2]"]
    for also, code in (("dead_ends=stop", 0), ("dead_ends=no", 1)):
        arguments = [*command, "--also", also, "--out", out, "--no-figures", "--no-texts"]
        monkeypatch.setattr(sys, "argv", ["orienteer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert (ended.value.code or 0) == code
    run_of = json.loads((out / "metrics.json").read_text())["_run"]["agents"]
    assert {name: row["dead_ends"] for name, row in run_of.items()} == {
        "prf-idf-t": "undo", "random[steps=2]": "undo",
        "prf-idf-t[dead_ends=stop]": "stop", "random[steps=2;dead_ends=stop]": "stop",
    }  # fmt: skip
    assert "--also dead_ends=stop" in (out / "report.md").read_text()
    assert "expected undo or stop" in capsys.readouterr().err
