"""Runs that stand in for embeddings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_world import QUESTIONS

from orienteer.data.passage import Question
from orienteer.dense import (
    DenseError,
    EmbeddingRetriever,
    Embeddings,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    NotInRunError,
    RunRetriever,
    TextEncoder,
    embed_index,
    write_run,
)
from orienteer.engine import EmbeddedEngine
from orienteer.errors import WriteError

ASKED = [*QUESTIONS, Question("an id  of %20 words", " who  keeps\tthe lamp "), Question("empty", " ")]


@pytest.fixture(scope="module")
def retriever(engine: EmbeddedEngine, encoder: TextEncoder, embeddings_folder: Path) -> EmbeddingRetriever:
    return EmbeddingRetriever(engine, Embeddings.open(embeddings_folder), encoder)


@pytest.fixture(scope="module")
def passages(engine: EmbeddedEngine) -> str:
    return engine.passages_fingerprint


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".zst"])
def test_a_run_replays_what_the_embeddings_found(
    suffix: str, tmp_path: Path, retriever: EmbeddingRetriever, passages: str
) -> None:
    write_run(tmp_path / f"dev.trec{suffix}", retriever, ASKED, depth=7)
    runs = RunRetriever(tmp_path, passages)
    texts = [question.question for question in ASKED if question.question.strip()]
    assert runs.search_many(texts, 7) == retriever.search_many([" ".join(text.split()) for text in texts], 7)
    assert runs.search_many(texts[:1], 3) == [runs.search_many(texts[:1], 7)[0][:3]]
    assert runs.search_many([""], 7) == [[]]
    assert runs.fingerprint == retriever.fingerprint


def test_the_lines_are_trecs_and_the_same_every_time(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    for name in ("a.trec", "b.trec", "a.trec.xz", "b.trec.xz"):
        write_run(tmp_path / name, retriever, ASKED, depth=3)
    for suffix in ("", ".xz"):
        assert (tmp_path / f"a.trec{suffix}").read_bytes() == (tmp_path / f"b.trec{suffix}").read_bytes()
    lines = [line.split() for line in (tmp_path / "a.trec").read_text().splitlines()]
    assert [len(line) for line in lines] == [6] * 3 * 6
    assert lines[0][:2] == ["q1", "Q0"]
    assert [line[3] for line in lines[:3]] == ["1", "2", "3"]
    assert [float(line[4]) for line in lines[:3]] == sorted((float(line[4]) for line in lines[:3]), reverse=True)


def test_a_run_quotes_no_question(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    write_run(tmp_path / "a.trec", retriever, ASKED, depth=3)
    written = "".join(file.read_text() for file in tmp_path.iterdir())
    assert not any(question.question in written for question in ASKED if question.question.strip())


def test_a_question_or_a_depth_that_the_run_lacks_is_named(
    tmp_path: Path, retriever: EmbeddingRetriever, passages: str
) -> None:
    write_run(tmp_path / "dev.trec", retriever, ASKED, depth=4)
    with pytest.raises(NotInRunError, match=r"'what is this'.*orienteer embed"):
        RunRetriever(tmp_path, passages).search_many(["what is this"], 4)
    with pytest.raises(NotInRunError, match="hold 4 passages a question, 5 are wanted"):
        RunRetriever(tmp_path, passages).search_many([QUESTIONS[0].question], 5)


def test_several_runs_serve_together_and_the_deepest_wins(
    tmp_path: Path, retriever: EmbeddingRetriever, passages: str
) -> None:
    write_run(tmp_path / "a.trec", retriever, QUESTIONS[:3], depth=6)
    write_run(tmp_path / "b.trec", retriever, QUESTIONS, depth=4)
    runs = RunRetriever(tmp_path, passages)
    assert len(runs.search_many([QUESTIONS[0].question], 6)[0]) == 6
    assert len(runs.search_many([QUESTIONS[4].question], 4)[0]) == 4


def test_runs_of_other_passages_are_refused_and_of_unknown_ones_taken(
    tmp_path: Path, retriever: EmbeddingRetriever
) -> None:
    write_run(tmp_path / "dev.trec", retriever, QUESTIONS, depth=4)
    with pytest.raises(EmbeddingsMismatchError, match="of other passages"):
        RunRetriever(tmp_path, "mine")
    RunRetriever(tmp_path)


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    (tmp_path / "bm25.trec").write_text("q1 Q0 d1 1 5 bm25\n")  # an evaluation's, without notes
    (tmp_path / "other.trec").write_text("")
    (tmp_path / "other.json").write_text("{}")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(EmbeddingsMissingError, match="orienteer dense-run"):
            RunRetriever(folder)


def test_a_damaged_run_is_found(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    file = tmp_path / "dev.trec"
    write_run(file, retriever, QUESTIONS, depth=4)
    whole = file.read_text()
    file.write_text(whole[:-1])
    with pytest.raises(EmbeddingsCorruptError, match=r"dev.trec is not the run that dev.json tells of"):
        RunRetriever(tmp_path)
    file.write_text(whole)
    notes = json.loads((tmp_path / "dev.json").read_text())
    for row in ({**notes, "version": 2}, {**notes, "more": 1}, {**notes, "covers": [1]}, {**notes, "covers": None}):
        (tmp_path / "dev.json").write_text(json.dumps(row))
        with pytest.raises(EmbeddingsCorruptError, match=r"dev.json"):
            RunRetriever(tmp_path)


def test_runs_of_two_encoders_do_not_mix(tmp_path: Path, retriever: EmbeddingRetriever, passages: str) -> None:
    write_run(tmp_path / "a.trec", retriever, QUESTIONS, depth=4)
    write_run(tmp_path / "b.trec", retriever, QUESTIONS, depth=4)
    notes = json.loads((tmp_path / "b.json").read_text())
    (tmp_path / "b.json").write_text(json.dumps({**notes, "encoder": "other"}))
    with pytest.raises(EmbeddingsMismatchError, match="several encoders"):
        RunRetriever(tmp_path, passages)


def test_a_name_or_place_that_will_not_do_is_refused(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    with pytest.raises(DenseError, match=r"ends in \.trec"):
        write_run(tmp_path / "dev.txt", retriever, QUESTIONS)
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        write_run(tmp_path / "file" / "dev.trec", retriever, QUESTIONS, depth=1)


def test_a_score_comes_back_to_the_bit(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    write_run(tmp_path / "dev.trec", retriever, QUESTIONS, depth=12)
    texts = [question.question for question in QUESTIONS]
    scores = [hit.score for hits in RunRetriever(tmp_path).search_many(texts, 12) for hit in hits]
    assert scores == [float(np.float32(score)) for score in scores]
    assert any(score != round(score, 6) for score in scores)


def test_a_run_of_a_part_is_not_replayed_and_the_error_says_how_to_finish_it(
    tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    embed_index(engine, encoder, tmp_path / "embeddings", shard=5, passages=range(5, 10))
    part = EmbeddingRetriever(engine, Embeddings.open(tmp_path / "embeddings", partial=True), encoder)
    notes = write_run(tmp_path / "dev.trec", part, QUESTIONS, depth=4)
    assert (notes.passages, notes.covers) == (12, ((5, 10),))
    with pytest.raises(
        EmbeddingsMissingError,
        match=r"dev.trec covers 5 of 12 passages.*embed` --from 0 --to 5, --from 10 --to 12, .*--partial.*dense-join",
    ):
        RunRetriever(tmp_path)


def test_a_whole_run_says_that_it_covers_all(tmp_path: Path, retriever: EmbeddingRetriever) -> None:
    write_run(tmp_path / "dev.trec", retriever, QUESTIONS, depth=4)
    notes = json.loads((tmp_path / "dev.json").read_text())
    assert (notes["passages"], notes["covers"]) == (12, [[0, 12]])
