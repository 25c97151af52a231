"""Which format a path holds, and what is said where it holds none."""

from __future__ import annotations

import pytest

from orienteer.data import Passage, read_passages, read_qrels, read_questions
from orienteer.errors import DataError


@pytest.mark.parametrize("read", [read_passages, read_questions])
def test_a_missing_file_is_an_error_before_anything_is_read(tmp_path, read):
    with pytest.raises(DataError, match=r"none\.jsonl: no such file or folder"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read: embedded null byte"):
        read("a\0b.jsonl")


def test_a_missing_last_file_is_an_error_before_the_first_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": ""}')
    with pytest.raises(DataError, match="no such file"):
        read_passages([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_a_missing_file_of_judgements_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_qrels(tmp_path / "test.tsv")


def test_a_file_below_a_file_cannot_be_read(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(DataError, match="cannot be read: Not a directory"):
        read_passages(tmp_path / "a.jsonl" / "b.jsonl")


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"the folder is empty; expected \.jsonl"):
        read_passages(tmp_path)


def test_a_folder_of_something_else_says_what_it_has(tmp_path):
    for n in range(5):
        (tmp_path / f"passages-{n}.jsonl").write_text("")
    with pytest.raises(DataError, match=r"it has passages-0\.jsonl, .*, …\); give files of passages one by one"):
        read_passages(tmp_path)


@pytest.mark.parametrize("name", ["a.png", "a", "a.jsonl.bz2", "a.tar.gz"])
@pytest.mark.parametrize("read", [read_passages, read_questions])
def test_an_unknown_format_lists_the_known_ones(tmp_path, read, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=r"unknown format .*; expected \.jsonl with id"):
        read(tmp_path / name)


def test_markdown_holds_no_questions(tmp_path):
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(DataError, match=r"unknown format \.md"):
        read_questions(tmp_path / "a.md")


def test_suffixes_may_be_in_capitals(tmp_path):
    (tmp_path / "A.JSONL").write_text('{"id": 1, "text": "a"}')
    assert list(read_passages(tmp_path / "A.JSONL")) == [Passage("1", "", "a")]


def test_one_path_may_be_given_as_a_string(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}')
    assert list(read_passages(str(tmp_path / "a.jsonl"))) == [Passage("1", "", "a")]


def test_formats_may_be_mixed(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}')
    (tmp_path / "b.tsv").write_text("id\ttext\ttitle\n2\tb\t\n")
    (tmp_path / "c.txt").write_text("c")
    found = read_passages([tmp_path / "a.jsonl", tmp_path / "b.tsv", tmp_path / "c.txt"])
    assert [passage.id for passage in found] == ["1", "2", "c.txt#1"]


def test_an_empty_file_holds_no_rows(tmp_path):
    for name in ("a.jsonl", "a.tsv", "a.txt"):
        (tmp_path / name).write_text("")
        assert list(read_passages(tmp_path / name)) == []


def test_questions_and_passages_take_one_path_a_string_or_several(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": "1", "question": "who", "text": "one"}\n')
    second.write_text('{"id": "1", "question": "where", "text": "two"}\n')
    for paths, expected in ((first, 1), (str(first), 1), ([first, str(second)], 2), ((first, second), 2)):
        assert [question.question for question in read_questions(paths)] == ["who", "where"][:expected]
        assert [passage.text for passage in read_passages(paths)] == ["one", "two"][:expected]
    with pytest.raises(DataError, match="no such file"):
        read_questions([first, tmp_path / "nowhere.jsonl"])
