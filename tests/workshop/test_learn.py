"""Thumbs are kept and taken back; learning from them is judged on the question that was left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Refinement
from orienteer.workshop.learn import LearnError, as_dict, expanded, learn, synonyms_of
from orienteer.workshop.thumbs import Thumb, ThumbsError, ThumbStore, qrels_lines
from orienteer.workshop.tune import DEFAULT


def test_the_last_thumb_counts_and_0_takes_it_back(tmp_path: Path) -> None:
    store = ThumbStore(tmp_path / "deep" / "thumbs.jsonl")
    assert store.thumbs() == []
    for passage, thumb in (("a", 1), ("b", -1), ("a", -1), ("c", 1), ("c", 0)):
        store.add(Thumb("i1", "who", passage, thumb))
    store.add(Thumb("i2", "who", "a", 1))
    assert [(each.passage, each.thumb) for each in store.thumbs("i1")] == [("a", -1), ("b", -1)]
    assert len(store.thumbs()) == 3
    [question] = store.questions("i2")
    assert (question.question, question.grades) == ("who", {"a": 1})
    assert qrels_lines([question]) == "1 0 a 1\n"
    assert ThumbStore(store.file).thumbs() == store.thumbs()


def test_a_line_that_is_no_thumb_is_named(tmp_path: Path) -> None:
    (tmp_path / "thumbs.jsonl").write_text("nonsense\n")
    with pytest.raises(ThumbsError, match="line 1"):
        ThumbStore(tmp_path / "thumbs.jsonl").thumbs()
    with pytest.raises(ThumbsError, match="a thumb of 3"):
        ThumbStore(tmp_path / "thumbs.jsonl").add(Thumb("i", "q", "p", 3))


@pytest.fixture(scope="module")
def cars(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    """Passages that say automobile where the questions say car, among many that say neither."""
    passages = [
        Passage(f"auto{n}", "", f"automobile model{n} wheel and more words that make it a longer text")
        for n in range(12)
    ]
    passages += [Passage(f"model{n}", "", f"model{n} part{n} thing") for n in range(12)]
    passages += [Passage(f"other{n}", "", f"filler number{n} text of no use") for n in range(2000)]
    folder = tmp_path_factory.mktemp("cars") / "index"
    build_index(passages, folder, threads=1)
    return open_index(folder, threads=1)


def thumbed(count: int) -> list[Question]:
    return [
        Question(f"q{n}", f"car model{n}", judgements=((f"auto{n}", 1), (f"model{n}", 0))) for n in range(count)
    ]  # fmt: skip


def test_a_synonym_that_several_questions_speak_for_is_proposed_as_a_refinement(cars: EmbeddedEngine) -> None:
    synonyms = synonyms_of(cars, thumbed(4))
    assert "automobile" in synonyms["car"]
    assert "model1" not in synonyms  # one question alone
    query = expanded(cars, DEFAULT, synonyms, "car model9")
    assert Refinement("^", "contents", "automobile", 0.3) in query.refinements


def test_the_estimate_is_of_questions_that_were_left_out(cars: EmbeddedEngine) -> None:
    proposal = learn(cars, thumbed(8))
    assert proposal.both.value > proposal.nothing
    assert proposal.recommended == "both"
    assert as_dict(proposal)["recommended"] == "both"
    alone = [Question(f"q{n}", f"word{n} model{n}", judgements=((f"auto{n}", 1), (f"model{n}", 0))) for n in range(8)]
    assert learn(cars, alone).synonyms == {}


def test_random_thumbs_are_not_shown_to_help() -> None:
    engine, draw = bundled_engine(), np.random.default_rng(1)
    noise = [
        Question(q.id, q.question, judgements=((engine.id_at(int(draw.integers(len(engine)))), 1),))
        for q in bundled_questions("train")[:15]
    ]
    assert learn(engine, noise).recommended == "nothing"


def test_too_few_thumbs_are_an_error(cars: EmbeddedEngine) -> None:
    with pytest.raises(LearnError, match="4 questions with a thumb up; expected 5"):
        learn(cars, thumbed(4))
