"""Measures of a session: equal to a ten-line reference, and to ir-measures over the run files."""

from __future__ import annotations

from math import log2
from pathlib import Path

import pytest
from evaluated_world import FORTY, run
from hypothesis import given
from hypothesis import strategies as st
from small_world import HARD_QUESTIONS

from orienteer.data.passage import Question
from orienteer.engine import Hit, ReferenceEngine
from orienteer.evaluation import MEASURES
from orienteer.session import Record, Score, Settings, read_records, score
from orienteer.session.record import Provenance, RecordedPassage, RecordedStep

Flags = list[tuple[bool, bool, float]]


def reference(passages: Flags) -> dict[str, float]:
    """The measures of a result list of (relevant, exact, PS), written out."""
    w = [1 / log2(i + 2) for i in range(5)]
    ndcg = sum(w[i] * rel for i, (rel, _, _) in enumerate(passages)) / sum(w)
    ndcem = sum(w[i] * em for i, (_, em, _) in enumerate(passages)) / sum(w)
    ps = sum(p for _, _, p in passages) / 5
    top1 = float(bool(passages) and passages[0][0])
    top5 = float(any(rel for rel, _, _ in passages))
    em = float(bool(passages) and passages[0][1])
    return {"NDCG@5": ndcg, "Top-1": top1, "Top-5": top5, "EM-MR": em, "score": 0.2 * ndcg + 0.6 * ndcem + 0.2 * ps}


def recorded(lists: list[Flags], answers: tuple[str, ...] = ("yes",)) -> Record:
    """A session whose best passages after each step are those of `lists`, all of them new."""
    steps, passages = [], {}
    for number, flags in enumerate(lists):
        ids = tuple(f"{number}-{i}" for i in range(len(flags)))
        for rank, (id, (relevant, exact, ps)) in enumerate(zip(ids, flags, strict=True), 1):
            passages[id] = RecordedPassage(number, rank, ps, 0, 0, relevant, exact, "", "", "")
        total = score([f[2] for f in flags], [f[0] for f in flags], [f[1] for f in flags])
        hits = tuple(Hit(id, 1.0) for id in ids)
        steps.append(RecordedStep(None, "q", hits, ids, ids, (), total if answers else None))
    played = Provenance("agent", "", "", Settings())
    return Record(played, Question("q", "q", answers), tuple(steps), passages, "steps", "")


flags = st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), max_size=5)


@given(st.lists(flags, min_size=1, max_size=4))
def test_measures_equal_the_reference_after_every_step(lists: list[Flags]) -> None:
    record = recorded(lists)
    for step, passages in enumerate(lists):
        for name, expected in reference(passages).items():
            assert MEASURES[name].of(record, step) == pytest.approx(expected, abs=1e-12)
        assert MEASURES["reward"].of(record, step) == pytest.approx(
            reference(passages)["score"] - reference(lists[0])["score"], abs=1e-12
        )
        assert MEASURES["found"].of(record, step) == any(f[0] for each in lists[: step + 1] for f in each)
        assert MEASURES["passages_read"].of(record, step) == sum(map(len, lists[: step + 1]))
    for name in reference([]):
        assert MEASURES[name].of(record) == MEASURES[name].of(record, 99) == MEASURES[name].of(record, len(lists) - 1)


def test_one_relevant_passage_has_the_weights_of_the_paper() -> None:
    for place, weight in enumerate((0.3392, 0.2140, 0.1696, 0.1461, 0.1312)):
        record = recorded([[(i == place, False, 0.0) for i in range(5)]])
        assert MEASURES["NDCG@5"].of(record) == pytest.approx(weight, abs=5e-5)
    assert MEASURES["score"].of(recorded([[(False, False, 0.0), (True, False, 0.0)]])) == pytest.approx(0.043, abs=5e-4)


def test_without_answers_only_costs_apply() -> None:
    record = recorded([[(True, True, 1.0)]], answers=())
    assert {name for name, measure in MEASURES.items() if measure.of(record) is not None} == {
        "passages_read",
        "queries",
        "refinements_scored",
        "passages_scored",
    }


def test_a_question_that_could_not_be_asked_counts_as_nothing_found() -> None:
    record = recorded([])
    assert {measure.of(record) for measure in MEASURES.values()} == {0.0}


def test_a_step_without_a_score_counts_zero() -> None:
    assert Score(0, 0, 0, 0) == score([], [], [])
    assert MEASURES["score"].of(recorded([[]])) == 0


@pytest.fixture(scope="module")
def evaluated(engine: ReferenceEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evaluated")
    odd = [Question(f"{q.id} with blanks", q.question, q.answers) for q in HARD_QUESTIONS]
    run(engine, out, questions=[*FORTY, *odd])
    return out


def test_run_files_give_the_same_figures_by_ir_measures(evaluated: Path) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    pytest.importorskip("cwl", reason="needs cwl-eval")
    import json

    metrics = json.loads((evaluated / "metrics.json").read_text())
    qrels = list(ir_measures.read_trec_qrels(str(evaluated / "qrels.trec")))
    theirs = {name: ir_measures.parse_measure(each.ir_measures) for name, each in MEASURES.items() if each.ir_measures}
    assert set(theirs) == {"NDCG@5", "Top-1", "Top-5"}
    for agent in ("bm25", "bm25+ps", "prf-idf-t", "wanderer"):
        hits = list(ir_measures.read_trec_run(str(evaluated / "runs" / f"{agent}.trec")))
        found = ir_measures.calc_aggregate(list(theirs.values()), qrels, hits)
        for name, measure in theirs.items():
            assert 100 * float(found[measure]) == pytest.approx(metrics[agent][name], abs=1e-6), (agent, name)


def test_run_files_hold_the_best_passages_at_the_end_and_after_each_step(evaluated: Path) -> None:
    records = list(read_records(evaluated / "sessions" / "wanderer.jsonl"))
    steps = sorted((evaluated / "runs" / "wanderer.steps").iterdir())
    assert [file.name for file in steps] == ["00.trec", "01.trec", "02.trec", "03.trec", "04.trec"]
    assert steps[-1].read_text() == (evaluated / "runs" / "wanderer.trec").read_text()
    assert not (evaluated / "runs" / "bm25.steps").exists(), "an agent that never refines has no steps"
    for number, file in enumerate(steps):
        rows = [line.split() for line in file.read_text().splitlines()]
        assert all(len(row) == 6 and row[1] == "Q0" and row[5] == "wanderer" for row in rows)
        found: dict[str, list[str]] = {}
        for question, _, passage, rank, score_column, _ in rows:
            found.setdefault(question.replace("%20", " "), []).append(passage)
            assert len(found[question.replace("%20", " ")]) == int(rank)
            assert int(score_column) >= 1
        for record in records:
            best = list(record.steps[min(number, len(record.steps) - 1)].best) if record.steps else []
            assert found.get(record.question.id, []) == best
