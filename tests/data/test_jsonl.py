"""JSONL: what is read, what is refused and where, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orienteer.data import BadRows, Passage, Question, find_ids, read_passages, read_questions, write_jsonl
from orienteer.errors import DataError, DuplicateIdError, WriteError

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".jsonl.zst")

whole_text = st.text(st.characters(exclude_categories=["Cs"]))
ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda id: not id.isspace())
passages = st.builds(Passage, ids, whole_text, whole_text)
questions = st.builds(
    Question,
    id=ids,
    question=whole_text.filter(str.strip),
    answers=st.lists(whole_text).map(tuple),
    source=whole_text,
    passage_id=st.none() | ids,
    answer_start=st.none() | st.integers(0, 10**6),
)
fields = st.sampled_from(["id", "_id", "title", "text", "question", "answers", "answer_start"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
written = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def rows(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + b"\n")
    return path


def test_a_passage_has_id_title_and_text(tmp_path):
    path = rows(tmp_path / "p.jsonl", '{"id": "a", "title": "Bay", "text": "Water.", "more": [1]}')
    assert list(read_passages(path)) == [Passage("a", "Bay", "Water.")]


@pytest.mark.parametrize("title", ['"title": null, ', ""])
def test_a_passage_without_a_title_has_an_empty_one(tmp_path, title):
    path = rows(tmp_path / "p.jsonl", f'{{"id": "a", {title}"text": "Water."}}')
    assert list(read_passages(path)) == [Passage("a", "", "Water.")]


def test_an_integer_id_is_its_decimal_string(tmp_path):
    path = rows(tmp_path / "p.jsonl", '{"id": 7, "text": ""}', '{"id": -12, "text": ""}')
    assert [passage.id for passage in read_passages(path)] == ["7", "-12"]


def test_blank_lines_crlf_and_a_byte_order_mark_are_no_rows(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"id": 1, "text": "a"}\r\n\r\n  \n {"id": 2, "text": "b"} \r\n{"id": 3, "text": "c"}'
    )
    assert [passage.id for passage in read_passages(path)] == ["1", "2", "3"]
    assert find_ids(path, ["1", "2", "3"]) == {"1": [f"{path}:1"], "2": [f"{path}:4"], "3": [f"{path}:5"]}


def test_only_a_line_feed_ends_a_line(tmp_path):
    text = "one\u2028two\x85three\x0bfour\x1cfive"
    path = rows(tmp_path / "p.jsonl", json.dumps({"id": "a", "text": text}, ensure_ascii=False))
    assert [passage.text for passage in read_passages(path)] == [text]


def test_several_files_are_read_in_the_order_given(tmp_path):
    paths = [tmp_path / f"{n}.jsonl{suffix}" for n, suffix in enumerate(["", ".gz", ".xz", ".zst", ".xz"])]
    for n, path in reversed(list(enumerate(paths))):
        write_jsonl(path, [Passage(f"{n}-{i}", "", "text") for i in range(3)])
    assert [passage.id for passage in read_passages(paths)] == [f"{n}-{i}" for n in range(5) for i in range(3)]


BAD_PASSAGES = {
    "invalid JSON": '{"id": "x", "text": ',
    "something after the JSON object": '{"id": "x", "text": "a"} {"id": "y", "text": "b"}',
    "found a list, expected a JSON object": '["id", "text"]',
    "found null": "null",
    "nested too deep": "[" * 200_000,
    "no \"id\" (the row has 'text')": '{"text": "a"}',
    'the "id" is null': '{"id": null, "text": "a"}',
    'the "id" is empty': '{"id": "", "text": "a"}',
    'the "id" is a boolean': '{"id": true, "text": "a"}',
    'the "id" is a number': '{"id": 1.5, "text": "a"}',
    'the "id" is a list': '{"id": ["x"], "text": "a"}',
    "control character '\\x00'": '{"id": "a\\u0000b", "text": "a"}',
    "control character '\\n'": '{"id": "a\\nb", "text": "a"}',
    'no "text"': '{"id": "x"}',
    'the "text" is null': '{"id": "x", "text": null}',
    'the "text" is a number': '{"id": "x", "text": 3}',
    'the "title" is an object': '{"id": "x", "title": {}, "text": "a"}',
    "the \"text\" holds the lone surrogate '\\ud800' at character 2": '{"id": "x", "text": "a\\ud800"}',
    'the "title" holds the lone surrogate': '{"id": "x", "title": "\\udfff", "text": "a"}',
    'the "id" holds the lone surrogate': '{"id": "\\ud83d", "text": "a"}',
    "invalid UTF-8: byte 0xff at byte 22": b'{"id": "x", "text": "\xff"}',
    "invalid UTF-8": b'{"id": "x", "text": "\xed\xa0\x80"}',
}


@pytest.mark.parametrize(("message", "row"), BAD_PASSAGES.items(), ids=BAD_PASSAGES)
def test_a_bad_passage_is_an_error_that_names_file_line_and_fault(tmp_path, message, row):
    path = rows(tmp_path / "p.jsonl", '{"id": "a", "text": "A"}', "", row, '{"id": "b", "text": "B"}')
    reading = read_passages(path)
    assert next(reading) == Passage("a", "", "A")
    with pytest.raises(DataError) as error:
        next(reading)
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)
    assert type(error.value) is DataError


def test_skipped_rows_are_counted_and_the_first_messages_kept(tmp_path):
    good = '{"id": "g", "text": "good"}'
    path = rows(tmp_path / "p.jsonl", good, *BAD_PASSAGES.values(), good)
    bad = BadRows(keep=3)
    assert list(read_passages(path, skip_bad=True, on_bad=bad)) == [Passage("g", "", "good")] * 2
    assert bad.count == len(BAD_PASSAGES)
    assert [message.split(": ")[0] for message in bad.first] == [f"{path}:{line}" for line in (2, 3, 4)]
    assert str(bad).startswith(f"{len(BAD_PASSAGES)} bad rows skipped")
    assert str(bad).endswith(f"and {len(BAD_PASSAGES) - 3} more")


def test_bad_rows_may_be_skipped_in_silence(tmp_path):
    assert list(read_passages(rows(tmp_path / "p.jsonl", "{"), skip_bad=True)) == []


def test_a_surrogate_pair_written_as_escapes_is_one_character(tmp_path):
    path = rows(tmp_path / "p.jsonl", '{"id": "x", "text": "\\ud83d\\ude00"}')
    assert [passage.text for passage in read_passages(path)] == ["😀"]


def test_places_of_ids_are_found_again_across_files(tmp_path):
    one = rows(tmp_path / "1.jsonl", '{"id": "a", "text": ""}', "{bad", '{"id": "b", "text": ""}')
    two = rows(tmp_path / "2.jsonl", '{"id": "b", "text": ""}', '{"id": "b", "text": ""}')
    assert find_ids([one, two], ["b", "z"]) == {"b": [f"{one}:3", f"{two}:1", f"{two}:2"], "z": []}


def test_a_question_has_what_its_row_has(tmp_path):
    path = rows(
        tmp_path / "q.jsonl",
        '{"id": 1, "question": "who?", "answers": ["me", "I"], "source": "nq", "passage_id": 3, "answer_start": 0}',
        '{"id": "2", "question": "what?"}',
        '{"id": "3", "question": "how?", "answers": null, "source": null, "passage_id": null, "answer_start": null}',
    )
    assert list(read_questions(path)) == [
        Question("1", "who?", ("me", "I"), "nq", "3", 0),
        Question("2", "what?"),
        Question("3", "how?"),
    ]


BAD_QUESTIONS = {
    'no "question"': '{"id": "x", "text": "not asked"}',
    'the "question" is empty': '{"id": "x", "question": " "}',
    'the "question" is a number': '{"id": "x", "question": 1}',
    'the "answers" is a string; expected a list': '{"id": "x", "question": "q", "answers": "a"}',
    'one of the "answers" is a number': '{"id": "x", "question": "q", "answers": ["a", 1]}',
    'the "source" is a list': '{"id": "x", "question": "q", "source": []}',
    'the "passage_id" is empty': '{"id": "x", "question": "q", "passage_id": ""}',
    'the "answer_start" is -1': '{"id": "x", "question": "q", "answer_start": -1}',
    'the "answer_start" is True': '{"id": "x", "question": "q", "answer_start": true}',
    "\"answers\" holds the lone surrogate '\\udc00'": '{"id": "x", "question": "q", "answers": ["\\udc00"]}',
}


@pytest.mark.parametrize(("message", "row"), BAD_QUESTIONS.items(), ids=BAD_QUESTIONS)
def test_a_bad_question_is_an_error_that_names_file_line_and_fault(tmp_path, message, row):
    path = rows(tmp_path / "q.jsonl", '{"id": "a", "question": "why?"}', row)
    with pytest.raises(DataError) as error:
        list(read_questions(path))
    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)


def test_two_questions_with_one_id_are_an_error_that_names_both_places(tmp_path):
    path = rows(
        tmp_path / "q.jsonl",
        '{"id": 1, "question": "a"}',
        '{"id": 2, "question": "b"}',
        '{"id": "1", "question": "c"}',
    )
    with pytest.raises(DuplicateIdError, match=rf"{path}:3: the id '1' is already that of {path}:1"):
        list(read_questions(path))
    bad = BadRows()
    kept = read_questions(path, skip_bad=True, on_bad=bad)
    assert [question.question for question in kept] == ["a", "b"]
    assert bad.count == 1


@pytest.mark.long
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(expected=st.lists(passages, max_size=20))
@written
def test_passages_written_are_read_back(tmp_path, suffix, expected):
    path = tmp_path / f"p{suffix}"
    assert write_jsonl(path, expected) == len(expected)
    assert list(read_passages(path)) == expected


@pytest.mark.long
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(expected=st.lists(questions, max_size=10, unique_by=lambda question: question.id))
@written
def test_questions_written_are_read_back(tmp_path, suffix, expected):
    path = tmp_path / f"q{suffix}"
    assert write_jsonl(path, expected) == len(expected)
    assert list(read_questions(path)) == expected


@pytest.mark.long
@given(line=st.binary(max_size=80).filter(lambda line: b"\n" not in line))
@written
def test_any_line_is_a_passage_or_a_data_error_on_its_line(tmp_path, line):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": 1, "text": "a"}\n' + line + b'\n{"id": 2, "text": "b"}\n')
    bad = BadRows()
    found = list(read_passages(path, skip_bad=True, on_bad=bad))
    assert [found[0].id, found[-1].id] == ["1", "2"]
    blank = not line.strip()
    assert len(found) + bad.count == (2 if blank else 3)
    assert all(message.startswith(f"{path}:2: ") for message in bad.first)


@pytest.mark.long
@given(row=st.dictionaries(fields, json_values))
@written
def test_any_json_object_is_a_row_or_a_data_error(tmp_path, row):
    path = rows(tmp_path / "x.jsonl", json.dumps(row))
    for read in (read_passages, read_questions):
        bad = BadRows()
        assert len(list(read(path, skip_bad=True, on_bad=bad))) + bad.count == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_twice_gives_the_same_bytes(tmp_path, suffix):
    one, two = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (one, two):
        write_jsonl(path, [Passage("a", "t", "x" * 100)])
    assert one.read_bytes() == two.read_bytes()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "p.jsonl.xz"
    write_jsonl(path, [Passage("old", "", "")])

    def breaks():
        yield Passage("new", "", "")
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_jsonl(path, breaks())
    assert [passage.id for passage in read_passages(path)] == ["old"]
    assert [file.name for file in tmp_path.iterdir()] == ["p.jsonl.xz"]


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    path = tmp_path / "p.jsonl"
    with pytest.raises(DataError, match="row 1, id 'a': a lone surrogate"):
        write_jsonl(path, [Passage("a", "", "\ud800")])
    with pytest.raises(DataError, match='row 2: the "id" is empty'):
        write_jsonl(path, [Passage("a", "", ""), Passage("", "", "")])
    with pytest.raises(DataError, match=r"expected a name in \.jsonl"):
        write_jsonl(tmp_path / "p.csv", [])
    with pytest.raises(WriteError, match="cannot be written: No such file or directory"):
        write_jsonl(tmp_path / "none" / "p.jsonl", [])
    assert list(tmp_path.iterdir()) == []
