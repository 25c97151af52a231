"""Planned comparisons: the pairs asked for, on the same questions, corrected for one another alone."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from evaluated_world import AGENTS, FORTY, run

from orienteer import cli
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import EvaluationError, bootstrap, compare, permutation_test


@pytest.fixture(scope="module")
def judged(engine: ReferenceEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("judged")
    run(engine, out, agents=[*AGENTS, "bm25@100+ps"], texts=False)
    return out


@pytest.fixture(scope="module")
def lucky(judged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but the wanderer's values are drawn: better than the others' by far."""
    out = tmp_path_factory.mktemp("lucky")
    shutil.copytree(judged / "summaries", out / "summaries")
    file = out / "summaries" / "wanderer.json"
    row = json.loads(file.read_text())
    draw = np.random.default_rng(0)
    for name in ("NDCG@5", "score"):
        row["values"][name] = [v if v is None else float(draw.uniform(0.5, 1.0)) for v in row["values"][name]]
    file.write_text(json.dumps(row))
    return out


def values(folder: Path, agent: str, measure: str) -> list[float]:
    row = json.loads((folder / "summaries" / f"{agent}.json").read_text())
    return [100 * value for value in row["values"][measure] if value is not None]


def test_a_comparison_is_the_first_agent_less_each_other_on_the_questions_with_answers(lucky: Path) -> None:
    found = compare(lucky, [["wanderer", "bm25", "bm25+ps"]], ["NDCG@5"])
    assert [(each.agent, each.baseline, each.measure) for each in found] == [
        ("wanderer", "bm25", "NDCG@5"), ("wanderer", "bm25+ps", "NDCG@5"),
    ]  # fmt: skip
    for each in found:
        mine, theirs = (np.array(values(lucky, name, "NDCG@5")) for name in (each.agent, each.baseline))
        assert len(mine) == len(theirs) < len(FORTY)
        assert each.difference == pytest.approx((mine - theirs).mean())
        [[low, high]] = bootstrap(mine - theirs, seed=0)
        assert (each.low, each.high) == pytest.approx((low, high))
        assert each.p == permutation_test(mine - theirs, seed=0)[0]


def test_a_single_comparison_pays_for_no_other(lucky: Path) -> None:
    [alone] = compare(lucky, [["wanderer", "bm25"]], ["score"])
    assert alone.p_holm == alone.p
    many = compare(lucky, [["wanderer", "bm25", "bm25+ps", "prf-idf-t"]], ["score", "NDCG@5"])
    same = next(each for each in many if (each.baseline, each.measure) == ("bm25", "score"))
    assert same.p == alone.p
    assert alone.p_holm < same.p_holm < 0.05


def test_the_whole_family_of_a_report_gives_the_figures_of_the_report(judged: Path) -> None:
    others = ["bm25", "prf-idf-t", "wanderer", "bm25@100+ps"]
    stored = json.loads((judged / "statistics.json").read_text())["comparisons"]
    against = {(row["agent"], row["measure"]): row for row in stored if row["baseline"] == "bm25+ps"}
    for each in compare(judged, [[other, "bm25+ps"] for other in others]):
        row = against[each.agent, each.measure]
        assert (each.difference, each.p, each.p_holm) == pytest.approx((row["difference"], row["p"], row["p_holm"]))


def test_a_pair_named_twice_counts_once(judged: Path) -> None:
    assert len(compare(judged, [["wanderer", "bm25"], ["wanderer", "bm25"]], ["score"])) == 1


@pytest.mark.parametrize(
    ("groups", "measures", "message"),
    [
        ([["wanderer", "nobody"]], ["score"], "no summary of nobody; there are those of bm25"),
        ([["wanderer"]], ["score"], "'wanderer': one agent; expected two or more"),
        ([["wanderer", "bm25"]], ["queries"], "'queries' is no measure of quality"),
        ([["wanderer", "bm25"]], [], "nothing to compare"),
    ],
)
def test_what_cannot_be_compared_is_one_clear_error(
    judged: Path, groups: list[list[str]], measures: list[str], message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        compare(judged, groups, measures)


def test_agents_judged_on_different_questions_are_not_compared(
    engine: ReferenceEngine, judged: Path, tmp_path: Path
) -> None:
    run(engine, tmp_path, agents=["bm25"], questions=FORTY[1:], texts=False)
    (tmp_path / "summaries" / "other.json").write_bytes((judged / "summaries" / "wanderer.json").read_bytes())
    with pytest.raises(EvaluationError, match="several sets of questions"):
        compare(tmp_path, [["wanderer", "bm25"]])


def test_the_command_prints_a_table_or_an_object_a_comparison(
    judged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["orienteer", "compare", str(judged), "wanderer,bm25", "--measures", "score,Top-5"]
    for extra in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", [*arguments, *extra])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        if extra:
            rows = [json.loads(line) for line in shown.splitlines()]
            assert [row["measure"] for row in rows] == ["score", "Top-5"]
            [score, _] = compare(judged, [["wanderer", "bm25"]], ["score", "Top-5"])
            assert rows[0]["difference"] == score.difference
        else:
            assert shown.count("wanderer") == 2
