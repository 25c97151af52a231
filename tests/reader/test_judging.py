"""What a reader is worth, measured on readings whose worth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from list_engine import ListEngine

from orienteer.data import Passage, Question
from orienteer.reader import Reading, TrainedReader
from orienteer.reader.evaluate import (
    find_and_read,
    gold_measures,
    judge,
    ranking_measures,
    read_ranked,
    score_measures,
    title_effect,
)
from orienteer.reader.export import finish
from orienteer.reader.folder import load_folder

TEXTS = ["nothing here", "Moscow it is", "no", "by Tolstoy", "Leo Tolstoy, count", "none"]
CORPUS = [Passage(f"p{i}", "T" * i, text) for i, text in enumerate(TEXTS)]
ASKED = Question("q", "who wrote it", ("Tolstoy",), passage_id="p3")


class WordReader:
    """Scores a passage by whether it has a word, and answers with that word; a title adds `bias`."""

    fingerprint = "word"

    def __init__(self, word: str, bias: float = 0.0) -> None:
        self.word, self.bias = word, bias

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return [self._reading(passage) for passage in passages]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        return [self.read(question, passages) for question, passages in batch]

    def _reading(self, passage: Passage) -> Reading:
        place = passage.text.find(self.word)
        score = (0.8 if place >= 0 else 0.1) + (self.bias if passage.title else 0)
        start, end = (place, place + len(self.word)) if place >= 0 else (0, 0)
        return Reading(score, score, passage.text[start:end], start, end)


def test_a_reader_that_knows_the_answer_ranks_it_first():
    found = find_and_read(WordReader("Tolstoy"), ListEngine(CORPUS), [ASKED], 6)
    before, after = ranking_measures(found, 6, by_score=False), ranking_measures(found, 6)
    assert (before["Top-1"], before["Top-5"], before["EM-MR"]) == (0, 100, 0)
    assert (after["Top-1"], after["Top-5"], after["EM-MR"]) == (100, 100, 100)
    assert after["NDCG@5"] == pytest.approx(100 * (0.3391602 + 0.2139863), abs=1e-3)


def test_ranking_looks_no_deeper_than_it_is_told():
    found = find_and_read(WordReader("Tolstoy"), ListEngine(CORPUS), [ASKED], 6)
    assert ranking_measures(found, 3)["Top-5"] == 0


def test_gold_passages_give_em_and_f1():
    measures = gold_measures(WordReader("Tolstoy"), [ASKED, ASKED], [CORPUS[3], CORPUS[0]])
    assert measures == {"EM": 50, "F1": 50}


def test_scores_are_judged_against_what_holds_the_answer():
    measures = score_measures(find_and_read(WordReader("Tolstoy"), ListEngine(CORPUS), [ASKED], 6))
    assert measures["AUC"] == 1
    assert measures["base rate"] == pytest.approx(1 / 3)
    assert measures["Brier"] == pytest.approx((2 * 0.2**2 + 4 * 0.1**2) / 6)


def test_a_reader_that_leans_on_titles_is_found_out():
    reader = WordReader("Tolstoy", bias=0.15)
    found = find_and_read(reader, ListEngine(CORPUS), [ASKED], 6)
    assert title_effect(reader, found) == pytest.approx(0.15 * 4 / 5)  # p0 has no title, p3 is the gold one


def test_a_question_for_which_nothing_is_found_counts_as_a_miss():
    result = judge(WordReader("x"), ListEngine(CORPUS), [ASKED], 5)
    assert result["BM25@5+PS"]["EM-MR"] == 0
    assert ranking_measures(find_and_read(WordReader("x"), ListEngine([]), [ASKED], 5), 5)["Top-5"] == 0


def test_reading_an_index_ranks_by_score_and_keeps_the_engines_order_among_equals():
    ranked = read_ranked("who wrote it", ListEngine(CORPUS), WordReader("Tolstoy"), 6)
    assert [passage.id for passage, _ in ranked] == ["p3", "p4", "p0", "p1", "p2", "p5"]


def test_finishing_fits_ps_and_shrinks_the_weights(tiny_folder: Path, tmp_path: Path):
    fitted = finish(tiny_folder, tmp_path, ListEngine(CORPUS), [ASKED], threads=1, licence="test")
    small, large = load_folder(tmp_path), load_folder(tiny_folder)
    assert small.calibration == fitted != large.calibration
    assert small.notes["licence"] == "test"
    assert sum(t.nbytes for t in small.tensors.values()) < sum(t.nbytes for t in large.tensors.values())
    readings = TrainedReader.from_pretrained(tmp_path, threads=1).read("who wrote it", CORPUS)
    exact = TrainedReader.from_pretrained(tiny_folder, "int8", threads=1).read("who wrote it", CORPUS)
    assert [r.logit for r in readings] == pytest.approx([r.logit for r in exact], abs=1e-5)
    assert sum(r.score for r in readings) / len(CORPUS) == pytest.approx(1 / 3, abs=0.02)  # Platt keeps the mean
