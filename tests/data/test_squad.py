"""SQuAD's JSON, 1.1 and 2.0."""

from __future__ import annotations

import copy
import json
import lzma

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orienteer.data import BadRows, Passage, Question, find_ids, read_passages, read_questions
from orienteer.errors import DataError, DuplicateIdError

FILE = {
    "version": "v2.0",
    "data": [
        {
            "title": "Loch_Ness",
            "paragraphs": [
                {
                    "context": "Loch Ness is deep. It is 37 km long.",
                    "qas": [
                        {
                            "id": "a1",
                            "question": "How long is it?",
                            "answers": [
                                {"text": "37 km", "answer_start": 25},
                                {"text": "37", "answer_start": 25},
                                {"text": "37 km", "answer_start": 25},
                            ],
                            "is_impossible": False,
                        },
                        {
                            "id": "a2",
                            "question": "Who dug it?",
                            "answers": [],
                            "plausible_answers": [{"text": "Loch", "answer_start": 0}],
                            "is_impossible": True,
                        },
                    ],
                },
                {"context": "It never freezes.", "qas": []},
            ],
        },
        {"title": "", "paragraphs": [{"context": "Untitled.", "qas": []}]},
        {
            "title": "Loch_Ness",
            "paragraphs": [{"context": "Again.", "qas": [{"id": "b", "question": "What?", "answers": []}]}],
        },
    ],
}


def squad(tmp_path, content=FILE):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(content))
    return path


def changed(change):
    content = copy.deepcopy(FILE)
    change(content["data"])
    return content


def test_each_paragraph_is_a_passage_with_an_id_of_its_own(tmp_path):
    path = squad(tmp_path)
    assert list(read_passages(path)) == [
        Passage("Loch_Ness#1", "Loch Ness", "Loch Ness is deep. It is 37 km long."),
        Passage("Loch_Ness#2", "Loch Ness", "It never freezes."),
        Passage("dev.json#1", "", "Untitled."),
        Passage("Loch_Ness#3", "Loch Ness", "Again."),
    ]
    assert find_ids(path, ["Loch_Ness#3"]) == {"Loch_Ness#3": [f"{path}, paragraph 4"]}


def test_questions_know_their_answers_and_passage(tmp_path):
    assert list(read_questions(squad(tmp_path))) == [
        Question("a1", "How long is it?", ("37 km", "37"), "squad", "Loch_Ness#1", 25),
        Question("a2", "Who dug it?", source="squad"),
        Question("b", "What?", source="squad"),
    ]


def test_a_compressed_and_indented_file_is_read_alike(tmp_path):
    path = tmp_path / "dev.json.xz"
    path.write_bytes(lzma.compress(json.dumps(FILE, indent=1).encode()))
    plain = squad(tmp_path)
    assert [p.text for p in read_passages(path)] == [p.text for p in read_passages(plain)]
    assert list(read_questions(path)) == list(read_questions(plain))


def test_a_json_file_of_rows_is_read_as_jsonl(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"id": "1", "text": "a", "question": "q"}\n{"id": "2", "text": "b", "question": "r"}\n')
    assert [passage.id for passage in read_passages(path)] == ["1", "2"]
    assert [question.id for question in read_questions(path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], 'found a list without a list under "data"'),
        ({"data": {}}, 'found an object without a list under "data"'),
        ({}, 'found an object without a list under "data"'),
    ],
)
def test_another_json_file_is_told_apart(tmp_path, content, message):
    path = squad(tmp_path, content)
    for read in (read_passages, read_questions):
        with pytest.raises(DataError) as error:
            list(read(path))
        assert str(error.value).startswith(f"{path}: {message}")


def test_a_file_that_is_cut_short_is_an_error(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(FILE)[:-20])
    with pytest.raises(DataError, match=r"dev\.json: invalid JSON: .*expected a SQuAD file"):
        list(read_passages(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.insert(0, "x"), ", paragraph 1: article 1: found a string"),
        (lambda data: data[0].pop("paragraphs"), ', paragraph 1: article 1: the "paragraphs" is null'),
        (lambda data: data[0]["paragraphs"][1].pop("context"), ', paragraph 2: the "context" is null'),
        (lambda data: data[1].update(title=3), ', paragraph 3: the "title" is a number'),
        (lambda data: data[2].update(title="\ud800"), ', paragraph 4: the "id" holds the lone surrogate'),
    ],
)
def test_a_bad_paragraph_is_named_by_its_number(tmp_path, change, message):
    path = squad(tmp_path, changed(change))
    with pytest.raises(DataError) as error:
        list(read_passages(path))
    assert str(error.value).startswith(f"{path}{message}")
    bad = BadRows()
    assert len(list(read_passages(path, skip_bad=True, on_bad=bad))) >= 2
    assert bad.count == 1


def first_question(data):
    return data[0]["paragraphs"][0]["qas"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[0]["paragraphs"][0].pop("qas"), 'the "qas" is null'),
        (lambda data: data[0]["paragraphs"][0]["qas"].insert(0, 3), "its question 1: found a number"),
        (lambda data: first_question(data).pop("id"), 'its question 1: the "id" is null'),
        (lambda data: first_question(data).pop("question"), 'its question 1: the "question" is null'),
        (lambda data: first_question(data).update(answers="x"), 'its question 1: the "answers" is a string'),
        (lambda data: first_question(data)["answers"][0].pop("text"), 'null as "text"'),
        (lambda data: first_question(data)["answers"][0].update(answer_start=24), "where ' 37 k' stands"),
        (
            lambda data: first_question(data)["answers"][0].update(answer_start=-3),
            "not at its answer_start -3",
        ),
    ],
)
def test_a_bad_question_is_named_by_its_paragraph(tmp_path, change, message):
    path = squad(tmp_path, changed(change))
    with pytest.raises(DataError) as error:
        list(read_questions(path))
    assert str(error.value).startswith(f"{path}, paragraph 1: ")
    assert message in str(error.value)
    bad = BadRows()
    assert "b" in [question.id for question in read_questions(path, skip_bad=True, on_bad=bad)]
    assert bad.count == 1


def test_a_question_id_used_twice_is_an_error(tmp_path):
    path = squad(tmp_path, changed(lambda data: first_question(data).update(id="b")))
    with pytest.raises(DuplicateIdError, match=r"paragraph 4: the id 'b' is already that of .*paragraph 1"):
        list(read_questions(path))


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
titles = st.sampled_from(["A", "A#1", "A_b", "", "dev.json"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(articles=st.lists(st.tuples(titles, st.lists(text, max_size=4)), max_size=8))
def test_ids_are_unique_stable_and_nothing_is_lost(tmp_path, articles):
    content = {"data": [{"title": t, "paragraphs": [{"context": c, "qas": []} for c in cs]} for t, cs in articles]}
    path = squad(tmp_path, content)
    found = list(read_passages(path))
    assert [passage.text for passage in found] == [context for _, contexts in articles for context in contexts]
    assert len({passage.id for passage in found}) == len(found)
    assert list(read_passages(path)) == found
