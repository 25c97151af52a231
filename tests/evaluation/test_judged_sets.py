"""Evaluation by judgements: standard measures, and an error instead of figures that are 0 for no reason."""

from __future__ import annotations

import json
import sys
from math import log2
from pathlib import Path

import pytest
from evaluated_world import WANDERER, run
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

import judged_bm25
from orienteer import cli
from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine, build_index
from orienteer.evaluation import EvaluationError, compare, experiment
from orienteer.evaluation.ranking_measures import RANKING_MEASURES, measure_rankings
from orienteer.query import Query

JUDGED = [
    Question("j1", "who lit the first lamp", judgements=(("ardle-1", 2), ("dunmore-1", 1), ("eider-1", 0))),
    Question("j2", "red tower in the storm", judgements=(("ardle-2", 1), ("dunmore-2", 1))),
    Question("j3", "ship on the reef", judgements=(("corran-2", 3), ("far away", 1))),
]


@pytest.fixture
def engine() -> ReferenceEngine:
    return ReferenceEngine(PASSAGES)


def by_hand(ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    """nDCG@10, Recall@100, MAP and MRR from their definitions."""
    relevant = {id: grade for id, grade in grades.items() if grade > 0}
    dcg = sum(relevant.get(id, 0) / log2(rank + 1) for rank, id in enumerate(ranking[:10], 1))
    ideal = sum(grade / log2(rank + 1) for rank, grade in enumerate(sorted(relevant.values(), reverse=True)[:10], 1))
    hits = [rank for rank, id in enumerate(ranking, 1) if id in relevant]
    precisions = [n / rank for n, rank in enumerate(hits, 1)]
    return {
        "nDCG@10": dcg / ideal, "Recall@100": sum(rank <= 100 for rank in hits) / len(relevant),
        "MAP": sum(precisions) / len(relevant), "MRR": 1 / hits[0] if hits else 0.0,
    }  # fmt: skip


def test_measures_are_those_of_their_definitions() -> None:
    rankings = {"a": ["x", "y", "z"], "b": [str(n) for n in range(200)], "c": []}
    grades = {"a": {"z": 2, "y": 1, "x": 0, "w": 1}, "b": {"150": 1, "9": 2, "10": 3}, "c": {"x": 1}}
    found = measure_rankings(rankings, grades)
    for question in ("a", "b"):
        expected = by_hand(rankings[question], grades[question])
        assert {name: found[name][question] for name in RANKING_MEASURES} == pytest.approx(expected)
    assert all(found[name]["c"] == 0 for name in RANKING_MEASURES)


def test_bm25_has_the_measures_of_its_own_ranking(engine: ReferenceEngine, tmp_path: Path) -> None:
    result = run(engine, tmp_path, questions=JUDGED, agents=("bm25",))
    expected = [by_hand([hit.id for hit in engine.search(Query(q.question), 1000)], dict(q.judgements)) for q in JUDGED]
    for name in RANKING_MEASURES:
        mean = sum(each[name] for each in expected) / len(expected)
        assert result.metrics["bm25"][name] == pytest.approx(100 * mean)
    assert "EM-MR" not in result.metrics["bm25"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scifact", "cranfield", "2wikimultihopqa"])
def test_ndcg_of_a_judged_set_is_that_of_lucenes_own_run(shared_data: Path, lucene_jar: str, name: str) -> None:
    folder = shared_data / "data" / "judged" / name
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    found = judged_bm25.compare(folder, lucene_jar)
    assert found["evaluate"] > 0.4
    assert found["evaluate"] == pytest.approx(found["lucene"], abs=0.005)


def test_every_agent_has_them_with_intervals_and_tests(engine: ReferenceEngine, tmp_path: Path) -> None:
    result = run(engine, tmp_path, questions=JUDGED, agents=("bm25", "bm25+ps", WANDERER))
    for agent in ("bm25", "bm25+ps", "wanderer"):
        assert set(RANKING_MEASURES) <= set(result.metrics[agent])
        low, high = result.statistics.intervals[agent]["nDCG@10"]
        assert low <= result.metrics[agent]["nDCG@10"] <= high
    assert any(each.measure == "nDCG@10" for each in result.statistics.comparisons)
    assert not any(each.measure == "EM-MR" for each in result.statistics.comparisons)
    report = (tmp_path / "report.md").read_text()
    assert "nDCG@10" in report
    assert "tab:results" not in report
    assert "3 of them with answers or judgements" in report
    assert {each.measure for each in compare(tmp_path, [["wanderer", "bm25"]])} >= {"nDCG@10", "MRR", "score"}


def test_a_judged_evaluation_goes_on_from_its_summaries(engine: ReferenceEngine, tmp_path: Path) -> None:
    first = run(engine, tmp_path, questions=JUDGED, agents=("bm25",))
    for file in (tmp_path / "sessions").iterdir():
        file.unlink()
    second = run(engine, tmp_path, questions=JUDGED, agents=("bm25", "bm25+ps"))
    assert second.metrics["bm25"] == first.metrics["bm25"]
    changed = [*JUDGED[:2], Question("j3", JUDGED[2].question, judgements=(("corran-2", 1),))]
    with pytest.raises(EvaluationError, match="questions"):
        run(engine, tmp_path, questions=changed, agents=("bm25",))


def test_judged_and_unjudged_questions_mix(engine: ReferenceEngine, tmp_path: Path) -> None:
    result = run(engine, tmp_path, questions=[*JUDGED, *QUESTIONS], agents=("bm25",))
    only = run(engine, tmp_path / "only", questions=JUDGED, agents=("bm25",))
    assert result.metrics["bm25"]["nDCG@10"] == only.metrics["bm25"]["nDCG@10"]
    assert "EM-MR" in result.metrics["bm25"]


def test_judgements_of_another_corpus_are_an_error_not_a_zero(engine: ReferenceEngine, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="holds none of the 1 passages judged relevant"):
        run(engine, tmp_path, questions=[Question("q", "lamp", judgements=(("nowhere", 1),))])


def test_an_experiment_shows_what_applies(engine: ReferenceEngine) -> None:
    result = experiment(["bm25", "bm25+ps"], JUDGED, engine=engine, reader=LexicalReader())
    assert "nDCG@10" in result.table()
    assert "EM-MR" not in result.table()
    assert {each.measure for each in result.compare("bm25+ps", "bm25")} >= {"nDCG@10", "Recall@100"}


@pytest.mark.long
def test_a_beir_folder_is_evaluated_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, index = tmp_path / "lights", tmp_path / "index"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": q.id, "text": q.question}) + "\n" for q in JUDGED))
    rows = [f"{q.id}\t{id}\t{grade}\n" for q in JUDGED for id, grade in q.judgements]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    build_index(PASSAGES, index, threads=1)

    def call(*options: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orienteer", "evaluate", *map(str, options)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    code, printed, _ = call("--index", index, "--beir", folder, "--agents", "bm25")
    assert code == 0
    assert "nDCG@10" in printed
    assert "3 questions × 1 agents" in printed
    code, _, message = call("--index", index, "--beir", folder, "--split", "train")
    assert code == 1
    assert "no split 'train'; expected test" in message
    code, _, message = call("--index", index)
    assert code == 1
    assert "--beir FOLDER" in message
    (tmp_path / "bare.txt").write_text("who keeps the lamp\n")
    code, _, message = call("--index", index, "--questions", tmp_path / "bare.txt")
    assert code == 1
    assert "none of 1 questions has answers or judgements" in message
    build_index([Passage("else", "", "where")], tmp_path / "other", threads=1)
    code, _, message = call("--index", tmp_path / "other", "--beir", folder, "--agents", "bm25")
    assert code == 1
    assert "holds none of the 6 passages judged relevant" in message
