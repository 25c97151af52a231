"""A BEIR folder: corpus, queries, judgements."""

from __future__ import annotations

import gzip

import pytest

from orienteer.data import BadRows, Passage, Question, read_passages, read_qrels, read_questions
from orienteer.errors import DataError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "One", "text": "first", "metadata": {}}\n{"_id": "d2", "title": "", "text": "second"}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "what is one", "metadata": {}}\n{"_id": "q2", "text": "what is two"}\n'
        '{"_id": "q3", "text": "what is three"}\n'
    )
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t2\nq3\td1\t0\n")
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td2\t1\n")
    return tmp_path


def test_the_corpus_gives_the_passages(folder):
    assert list(read_passages(folder)) == [Passage("d1", "One", "first"), Passage("d2", "", "second")]
    assert list(read_passages(folder / "corpus.jsonl")) == list(read_passages(folder))


def test_the_queries_give_the_questions_with_the_passage_judged_best(folder):
    assert list(read_questions(folder)) == [
        Question("q1", "what is one", passage_id="d2", judgements=(("d1", 1), ("d2", 2))),
        Question("q2", "what is two", passage_id="d2", judgements=(("d2", 1),)),
        Question("q3", "what is three", judgements=(("d1", 0),)),
    ]


def test_grades_are_those_of_relevant_passages(folder):
    first, _, third = read_questions(folder)
    assert first.grades == {"d1": 1, "d2": 2}
    assert third.grades == {}
    assert third.is_judged


def test_answers_in_the_metadata_of_a_query_are_its_answers(folder):
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "what is one", "metadata": {"answers": ["first"]}}\n')
    assert [question.answers for question in read_questions(folder)] == [("first",)]


def test_judgements_of_trec_are_read_beside_any_file_of_questions(folder, tmp_path):
    qrels = tmp_path / "judged.qrels"
    qrels.write_text("q1 0 d1 1\nq1 0 d2 2\n\nq3 0 d1 0\n")
    assert read_qrels(qrels) == {"q1": {"d1": 1, "d2": 2}, "q3": {"d1": 0}}
    judged = list(read_questions(folder / "queries.jsonl", qrels=qrels))
    assert [(question.id, question.judgements) for question in judged] == [
        ("q1", (("d1", 1), ("d2", 2))),
        ("q3", (("d1", 0),)),
    ]


def test_a_bad_line_of_trec_is_named(folder, tmp_path):
    qrels = tmp_path / "judged.qrels"
    qrels.write_text("q1 0 d1 1\nq1 0 d2\n")
    with pytest.raises(DataError, match=r"judged.qrels:2: 3 columns; expected TREC's four"):
        read_qrels(qrels)
    with pytest.raises(DataError, match="no such file"):
        list(read_questions(folder / "queries.jsonl", qrels=tmp_path / "nowhere"))


def test_queries_without_judgements_are_questions_alone(folder):
    assert [question.passage_id for question in read_questions(folder / "queries.jsonl")] == [None] * 3


def test_a_file_of_judgements_gives_the_questions_of_its_split(folder, monkeypatch):
    assert [question.id for question in read_questions(folder / "qrels" / "test.tsv")] == ["q1", "q3"]
    monkeypatch.chdir(folder / "qrels")
    assert list(read_questions("train.tsv")) == [
        Question("q2", "what is two", passage_id="d2", judgements=(("d2", 1),))
    ]


def test_one_split_alone_in_a_folder_does_not_hide_the_other_questions(folder):
    (folder / "qrels" / "train.tsv").unlink()
    assert [question.id for question in read_questions(folder)] == ["q1", "q2", "q3"]


def test_judgements_are_read_by_query_and_passage(folder):
    assert read_qrels(folder / "qrels" / "test.tsv") == {"q1": {"d1": 1, "d2": 2}, "q3": {"d1": 0}}


def test_compressed_parts_are_found(folder):
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        path = folder / name
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert len(list(read_passages(folder))) == 2
    assert next(read_questions(folder)).passage_id == "d2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("q1\td1\thigh", "the \"score\" is 'high'"),
        ("q1\td1", "2 columns"),
        ("\td1\t1", 'the "query-id" is empty'),
    ],
)
def test_a_bad_judgement_is_named_by_its_line(folder, row, message):
    path = folder / "qrels" / "test.tsv"
    path.write_text(path.read_text() + row + "\n")
    for read in (read_qrels, lambda path: list(read_questions(path))):
        with pytest.raises(DataError) as error:
            read(path)
        assert str(error.value).startswith(f"{path}:5: ")
        assert message in str(error.value)
    bad = BadRows()
    assert len(list(read_questions(folder, skip_bad=True, on_bad=bad))) == 3
    assert bad.count == 1


def test_judgements_without_queries_beside_them_are_an_error(folder):
    (folder / "queries.jsonl").unlink()
    with pytest.raises(DataError, match=r"no queries\.jsonl"):
        read_questions(folder / "qrels" / "test.tsv")
    with pytest.raises(DataError, match=r"no queries\.jsonl"):
        read_questions(folder)
