"""Training rows: what is a positive, what a negative, and that a file gives back what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from list_engine import ListEngine

from orienteer.data import Passage, Question
from orienteer.errors import DataError
from orienteer.reader.mining import MiningConfig, TrainingRow, mine, occurrences, read_rows, write_rows

CORPUS = {
    f"p{i}": Passage(
        f"p{i}", f"Title {i}", f"Passage {i} says that {'Tolstoy' if i % 5 == 0 else 'somebody'} wrote it."
    )
    for i in range(60)
}
ASKED = Question("q", "who wrote it", ("Tolstoy",), "test", "p0", CORPUS["p0"].text.index("Tolstoy"))


def mined(*questions: Question, **settings: int) -> list[TrainingRow]:
    return list(mine(questions, ListEngine(list(CORPUS.values())), MiningConfig(**settings)))


def test_negatives_never_hold_the_answer_and_retrieved_passages_do():
    [row] = mined(ASKED)
    assert row.negatives
    assert not any("Tolstoy" in passage.text for passage in row.negatives)
    assert all(passage.text[s:e] == "Tolstoy" for passage in row.retrieved for s, e in passage.spans)


def test_the_gold_passage_is_marked_where_the_annotation_says_and_not_drawn_again():
    [row] = mined(ASKED, draws=60, top=60, retrieved=60)
    assert row.gold is not None
    assert row.gold.spans == ((ASKED.answer_start, ASKED.answer_start + 7),)
    assert row.gold.text not in [passage.text for passage in row.retrieved]


def test_a_question_without_a_positive_makes_no_row():
    assert mined(Question("q", "who", ("Dostoevsky",))) == []


def test_the_same_seed_draws_the_same_rows():
    assert mined(ASKED, seed=3, draws=12) == mined(ASKED, seed=3, draws=12) != mined(ASKED, seed=4, draws=12)


def test_occurrences_are_whole_words_in_any_case():
    assert occurrences("Son of a son, sonny; SON", ["son"]) == ((0, 3), (9, 12), (21, 24))
    assert occurrences("anything", ["", " "]) == ()


def test_a_file_gives_back_the_rows(tmp_path: Path):
    rows = mined(ASKED)
    assert write_rows(tmp_path / "rows.jsonl.zst", rows) == 1
    assert list(read_rows(tmp_path / "rows.jsonl.zst")) == rows


def test_a_line_that_is_no_row_is_named(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": 1}\n')
    with pytest.raises(DataError, match="line 1: not a training row"):
        list(read_rows(path))
