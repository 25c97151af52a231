"""The real corpus and questions, where they stand beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from orienteer.data import find_ids, read_passages, read_questions

SHARED = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the project")


@pytest.mark.parametrize(
    ("name", "count"), [("dev", 700), ("dev-who", 600), ("squad-dev", 2000), ("trivia-test", 2000)]
)
def test_question_sets_have_the_questions_their_readme_counts(name, count):
    questions = list(read_questions(SHARED / "questions" / f"{name}.jsonl.xz"))
    assert len(questions) == count
    assert all(question.answers and question.source for question in questions)


@pytest.mark.slow
def test_all_passages_are_read_and_hold_the_answers_of_dev():
    gold = {question.passage_id: question for question in read_questions(SHARED / "questions" / "dev.jsonl.xz")}
    count = untitled = found = 0
    for passage in read_passages(sorted((SHARED / "passages").glob("*.jsonl.xz"))):
        count += 1
        untitled += not passage.title
        if passage.id in gold and (start := gold[passage.id].answer_start) is not None:
            found += passage.text.startswith(tuple(gold[passage.id].answers), start)
    assert (count, untitled) == (879_684, 76)
    assert found >= 0.95 * len(gold)


@pytest.mark.slow
def test_a_gold_passage_is_found_again_in_its_shard():
    shard = SHARED / "passages" / "passages-0.jsonl.xz"
    id = next(read_questions(SHARED / "questions" / "dev.jsonl.xz")).passage_id
    assert id is not None
    [place] = find_ids(shard, [id])[id]
    assert place.startswith(f"{shard}:")
