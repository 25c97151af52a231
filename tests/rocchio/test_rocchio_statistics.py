"""Statistics, figures, the landscape, and how questions are chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hash_reader import HashReader

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data import Question
from orienteer.query import G3, G4, Refinement
from orienteer.rocchio import RocchioConfig, RocchioSession, RocchioStep, State, Variant, rocchio_sessions, variants_of
from orienteer.rocchio.generation import balanced, of_sources, question_type
from orienteer.rocchio.statistics import (
    landscape,
    landscape_config,
    landscape_variants,
    operator_name,
    statistics,
    write_landscape,
)
from orienteer.session import Settings
from orienteer.session.score import Score


def state(total: float, relevant: str = "10000", exact: str = "00000") -> State:
    return State(Score(0, 0, 0, total), tuple(b == "1" for b in relevant), tuple(b == "1" for b in exact))


def step(op: str, total: float, **options: object) -> RocchioStep:
    refinement = Refinement(op, "contents", "lamp", 4.0 if op == "^" else 1.0)  # type: ignore[arg-type]
    return RocchioStep(refinement, ("question", "snippet"), state(total, **options), candidates=10)  # type: ignore[arg-type]


SESSIONS = [
    RocchioSession(
        "a", Variant(G4), "best", state(0.1, "00000"), (step("+", 0.3), step("^", 0.5, exact="10000")), read=20
    ),
    RocchioSession("b", Variant(G4), "best", state(0.2, "01000"), (), read=10),
    RocchioSession("c", Variant(G4), "answer nowhere", state(0.0, "00000")),
    RocchioSession("d", Variant(G4), "no hits"),
    RocchioSession("e", Variant(G3), "steps", state(0.5), (step("or", 0.4),), read=5),
]


def test_statistics_count_what_the_sessions_hold() -> None:
    found = statistics(SESSIONS)
    assert list(found) == ["G3", "G4"]
    g4 = found["G4"]
    assert g4["sessions"] == 4
    assert g4["ended"] == {"best": 2, "answer nowhere": 1, "no hits": 1}
    assert g4["lengths"] == [1, 0, 1]
    assert g4["length_mean"] == 1.0
    assert g4["operators"] == {"+c": 1, "^4": 1}
    assert [gain["mean"] for gain in g4["gains"]] == pytest.approx([0.2, 0.2])
    assert g4["passages_read"] == 15
    assert g4["start"]["Top-5"] == pytest.approx(100 / 3)
    assert g4["final"]["Top-1"] == pytest.approx(100 / 3)
    assert g4["final"]["EM-MR"] == pytest.approx(100 / 3)
    assert g4["steps_not_rising"] == 0
    assert found["G3"]["steps_not_rising"] == 1


def test_operators_have_the_papers_names() -> None:
    assert operator_name(Refinement("-", "title", "x")) == "-t"
    assert operator_name(Refinement("^", "title", "x", 0.1)) == "^.1"
    assert operator_name(Refinement("or", "contents", "x")) == "or"


@pytest.mark.long
def test_the_figures_are_drawn_and_are_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from orienteer.rocchio.statistics import draw

    files = draw(statistics(SESSIONS), tmp_path / "a")
    again = draw(statistics(SESSIONS), tmp_path / "b")
    assert len(files) == 3
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]


def test_the_landscape_has_a_point_for_every_pair_of_weights(tmp_path: Path) -> None:
    questions = bundled_questions("train")[:3]
    variants = landscape_variants(0.5)
    assert [(v.lambda1, v.lambda2) for v in variants] == [(0, 0), (0, 0.5), (0, 1), (0.5, 0), (0.5, 0.5), (1, 0)]
    assert len(landscape_variants()) == 21
    assert (landscape_config().n, landscape_config().m) == (20, 20)
    reader = HashReader(questions)
    sessions = rocchio_sessions(bundled_engine(), reader, questions, variants, landscape_config())
    rows = landscape(session for own in sessions for session in own)
    assert len(rows) == 6
    write_landscape(rows, tmp_path / "landscape.jsonl")
    from orienteer.evaluation.figures import LANDSCAPE_MEASURES, read_landscape

    assert len(read_landscape(tmp_path / "landscape.jsonl")) == 6
    by_point = {(row["lambda1"], row["lambda2"]): row for row in rows}
    assert all(0 <= row[name] <= 100 for row in rows for name in LANDSCAPE_MEASURES)
    assert by_point[0.0, 0.0]["NDCG@5"] >= by_point[1.0, 0.0]["NDCG@5"] - 60
    assert json.loads((tmp_path / "landscape.jsonl").read_text().splitlines()[0])["lambda1"] == 0


def test_questions_are_balanced_over_what_they_ask_for() -> None:
    texts = ["who a", "Who b", "what c", "in which d", "who's e", "how many f", "name the g", "when h", "who i"]
    asked = [Question(text[-1], text) for text in texts]
    assert [question_type(text) for text in texts[:8]] == ["who", "who", "what", "which", "who", "how", "other", "when"]
    assert "".join(question.id for question in balanced(asked)) == "achdfgbei"


def test_within_a_type_the_sources_take_turns() -> None:
    asked = [Question(str(n), "who", source=source) for n, source in enumerate("aaaabbc")]
    assert "".join(question.id for question in balanced(asked)) == "0461523"
    assert [question.id for question in of_sources(asked, ["c", "b"])] == ["6", "4", "5"]
    assert of_sources(asked, []) == asked


def test_settings_that_make_no_sense_are_refused() -> None:
    from orienteer.rocchio import RocchioError

    for options, says in (
        ({"n": 0}, "n = 0"), ({"read_budget": 0}, "read budget of 0"), ({"settings": Settings(hits=50)}, "50 hits"),
        ({"settings": Settings(order="engine")}, "ordered by the engine"),
    ):  # fmt: skip
        with pytest.raises(RocchioError, match=says):
            RocchioConfig(**options)  # type: ignore[arg-type]
    with pytest.raises(RocchioError, match="no grammar is called 'G7'"):
        variants_of("G4,G7")
    assert [v.grammar.name for v in variants_of("G4, G0,G4")] == ["G4", "G0"]
