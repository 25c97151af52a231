"""Agents on questions in one call, and what its result can show."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from evaluated_world import AGENTS, FORTY, SETTINGS, run
from lexical_reader import LexicalReader

from orienteer.data.passage import Question
from orienteer.engine import ReferenceEngine
from orienteer.errors import MissingExtraError
from orienteer.evaluation import EvaluationError, Experiment, compare, experiment

NAMES = ["bm25", "bm25+ps", "prf-idf-t", "wanderer"]


@pytest.fixture(scope="module")
def result(engine: ReferenceEngine) -> Experiment:
    return experiment(AGENTS, FORTY, engine=engine, reader=LexicalReader(), settings=SETTINGS)


@pytest.mark.long
def test_an_experiment_has_the_measures_of_the_same_evaluation(
    engine: ReferenceEngine, result: Experiment, tmp_path: Path
) -> None:
    evaluation = run(engine, tmp_path)
    for agent, values in evaluation.metrics.items():
        untimed = {name: value for name, value in values.items() if name != "seconds"}
        assert result.metrics[agent] == untimed | {"seconds": result.metrics[agent]["seconds"]}
    assert result.statistics == evaluation.statistics
    assert result.agents == NAMES
    assert result.out is None


def test_a_comparison_is_that_of_the_stored_evaluation(
    engine: ReferenceEngine, result: Experiment, tmp_path: Path
) -> None:
    run(engine, tmp_path)
    assert result.compare("wanderer", "bm25") == compare(tmp_path, [["wanderer", "bm25"]])
    [one] = result.compare("wanderer", "bm25", ["Top-5"])
    assert one.low <= one.difference <= one.high
    assert str(one).startswith("wanderer - bm25, Top-5: ")


def test_a_named_folder_is_kept_and_continued(engine: ReferenceEngine, tmp_path: Path) -> None:
    seen = []
    first = experiment(["bm25"], FORTY, engine=engine, reader=LexicalReader(), settings=SETTINGS, out=tmp_path)
    second = experiment(
        ["bm25", "bm25+ps"], FORTY, engine=engine, reader=LexicalReader(), settings=SETTINGS, out=tmp_path,
        progress=seen.append,
    )  # fmt: skip
    assert first.out == second.out == tmp_path
    assert (tmp_path / "report.md").exists()
    assert second.metrics["bm25"] == first.metrics["bm25"]
    assert seen[-1].done == seen[-1].total == 2 * len(FORTY)


def test_the_table_has_a_row_for_each_agent(result: Experiment) -> None:
    head, *rows = result.table().splitlines()
    assert head.split()[:4] == ["agent", "NDCG@5", "Top-1", "Top-5"]
    assert [row.split()[0] for row in rows] == NAMES
    assert len({len(line) for line in result.table().splitlines()}) == 1, "aligned"
    assert f"{result.metrics['bm25']['Top-5']:.2f}" in rows[0]
    assert result.table("markdown", ["Top-5"]).splitlines()[0] == "| agent | Top-5 |"
    assert repr(result).endswith(result.table())


def test_the_notebook_table_escapes_names(result: Experiment) -> None:
    page = Experiment({"<b>": {"Top-5": 1.0}}, {}, [], result.statistics, {})._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda result: result.table("pdf"), "expected text or markdown"),
        (lambda result: result.table(measures=["P@7"]), "no measure 'P@7'"),
        (lambda result: result.compare("bm25", "nobody"), "no agent 'nobody'"),
        (lambda result: result.compare("bm25", "wanderer", ["queries"]), "no measure of quality"),
        (lambda result: result.compare("bm25", "wanderer", []), "nothing to compare"),
    ],
)
def test_a_mistake_is_answered_with_what_is_expected(result: Experiment, call: Any, what: str) -> None:
    with pytest.raises(EvaluationError, match=what):
        call(result)


def test_questions_without_answers_cannot_be_compared(engine: ReferenceEngine) -> None:
    unanswered = [Question(question.id, question.question) for question in FORTY[:3]]
    result = experiment(["bm25", "bm25+ps"], unanswered, engine=engine, reader=LexicalReader(), settings=SETTINGS)
    assert "Top-5" not in result.table()
    with pytest.raises(EvaluationError, match="there is nothing to compare"):
        result.compare("bm25+ps", "bm25")


def test_a_data_frame_has_an_agent_a_row_or_a_question_a_row(result: Experiment) -> None:
    pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert list(frame.index) == NAMES
    assert frame.loc["bm25", "Top-5"] == result.metrics["bm25"]["Top-5"]
    rows = result.to_dataframe(by_question=True)
    assert len(rows) == len(NAMES) * len(FORTY)
    assert 100 * rows[rows.agent == "bm25"]["Top-5"].mean() == pytest.approx(result.metrics["bm25"]["Top-5"])


def test_a_data_frame_without_pandas_says_how_to_install_it(
    result: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match="pip install"):
        result.to_dataframe()
