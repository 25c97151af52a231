"""Thumbs are kept and taken back; learning from them is judged on the question that was left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Refinement
from orienteer.workshop.learn import (
    BOOSTS,
    Changes,
    LearnError,
    as_dict,
    boosts_of,
    changes_of,
    expanded,
    learn,
    synonyms_of,
    value_with,
)
from orienteer.workshop.thumbs import Thumb, ThumbsError, ThumbStore, qrels_lines


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
    query = expanded(cars, Changes(synonyms=synonyms), "car model9")
    assert Refinement("^", "contents", "automobile", 0.3) in query.refinements


def test_the_estimate_is_of_questions_that_were_left_out(cars: EmbeddedEngine) -> None:
    proposal = learn(cars, thumbed(8))
    assert proposal.estimates["synonyms"].value > proposal.nothing
    assert proposal.recommended == "synonyms"
    assert as_dict(proposal)["recommended"] == "synonyms"
    alone = [Question(f"q{n}", f"word{n} model{n}", judgements=((f"auto{n}", 1), (f"model{n}", 0))) for n in range(8)]
    assert learn(cars, alone).changes.synonyms == {}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    """Passages of one length, each word once, so that no k1, b or phrase helps: only the weight of a term does."""
    passages = [Passage(f"good{n}", "", f"engine text{n} model{n}") for n in range(10)]
    passages += [Passage(f"bad{n}x{m}", "", f"model{n} text{m} part{n}") for n in range(10) for m in range(3)]
    folder = tmp_path_factory.mktemp("engines") / "index"
    build_index(passages, folder, threads=1)
    return open_index(folder, threads=1)


def on_engines(count: int) -> list[Question]:
    return [
        Question(f"q{n}", f"engine part{n} model{n}", judgements=((f"good{n}", 1), (f"bad{n}x0", 0)))
        for n in range(count)
    ]  # fmt: skip


def test_a_boost_from_which_several_questions_gain_is_proposed_as_a_refinement(engines: EmbeddedEngine) -> None:
    boosts = boosts_of(engines, on_engines(5))
    assert set(boosts) == {"engine"}  # the other terms are of one question each
    query = expanded(engines, Changes(boosts=boosts), "part7 of an engine")
    assert query.refinements == (Refinement("^", "contents", "engine", boosts["engine"]),)
    assert expanded(engines, Changes(boosts=boosts), "part7").refinements == ()


def test_a_boost_is_the_best_of_those_tried_by_the_engines_own_scores(engines: EmbeddedEngine) -> None:
    questions = on_engines(6)
    totals = [
        sum(value_with(engines, each, Changes(boosts={"engine": weight})) for each in questions) for weight in BOOSTS
    ]  # fmt: skip
    assert sum(value_with(engines, each, Changes()) for each in questions) < max(totals)
    assert boosts_of(engines, questions)["engine"] == BOOSTS[totals.index(max(totals))]


def test_boosts_are_judged_on_the_question_that_was_left_out(engines: EmbeddedEngine) -> None:
    proposal = learn(engines, on_engines(8))
    boosted = proposal.estimates["boosts"]
    assert boosted.value > proposal.estimates["refit"].value
    assert boosted.shown_better
    assert proposal.recommended == "boosts"
    # A term of two questions only: with either left out, the other alone does not speak for it.
    pair = [replace(each, question=each.question.replace("engine", "word")) for each in on_engines(8)[2:]]
    lone = learn(engines, [*on_engines(2), *pair])
    assert lone.changes.boosts
    assert lone.estimates["boosts"].value == lone.nothing


def test_changes_are_read_back_as_they_were_written_and_a_damaged_file_is_named(engines: EmbeddedEngine) -> None:
    proposal = learn(engines, on_engines(6))
    assert changes_of(as_dict(proposal)) == proposal.changes
    for damaged in ({}, {"setting": {"k1": "x"}}, {"setting": {"k9": 1}}, {"setting": {}, "boosts": [1]}):
        with pytest.raises(LearnError, match="not a ranking"):
            changes_of(damaged)


def test_what_adds_nothing_to_a_refit_is_shown_to_be_no_better_than_it(cars: EmbeddedEngine) -> None:
    alone = [Question(f"q{n}", f"word{n} model{n}", judgements=((f"auto{n}", 1), (f"model{n}", 0))) for n in range(8)]
    proposal = learn(cars, alone)
    assert not proposal.changes.synonyms
    assert not proposal.changes.boosts
    assert proposal.estimates["all"] == proposal.estimates["refit"]
    assert proposal.estimates["synonyms"].difference == 0


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
