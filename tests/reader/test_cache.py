"""Readings remembered: in memory, on disk, by several processes."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from orienteer.data import Passage
from orienteer.reader import CachedReader, Reading, ReadingFile
from orienteer.reader.cache import CacheError


class CountingReader:
    """Answers with the passage's first word; counts what it is asked to read."""

    def __init__(self, fingerprint: str = "one") -> None:
        self.fingerprint = fingerprint
        self.read_passages = 0

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self.read_passages += sum(len(passages) for _, passages in batch)
        return [[self._reading(question, passage) for passage in passages] for question, passages in batch]

    def _reading(self, question: str, passage: Passage) -> Reading:
        end = len(passage.text.split(" ")[0])
        return Reading(len(question) / 1000, len(passage.text) / 10, passage.text[:end], 0, end)


PASSAGES = [Passage(str(i), "", f"word{i} and more") for i in range(10)]


def test_a_cached_reading_equals_a_fresh_one_and_is_read_once():
    inner = CountingReader()
    cached = CachedReader(inner)
    fresh = CountingReader().read("q", PASSAGES)
    assert cached.read("q", PASSAGES) == cached.read("q", PASSAGES[::-1])[::-1] == fresh
    assert inner.read_passages == cached.misses == cached.hits == 10


def test_a_passage_twice_in_one_batch_is_read_once():
    inner = CountingReader()
    CachedReader(inner).read_many([("q", PASSAGES[:2] * 3), ("q", PASSAGES[:1]), ("r", PASSAGES[:1])])
    assert inner.read_passages == 3


def test_question_title_text_and_model_are_all_part_of_the_key():
    inner = CountingReader()
    cached = CachedReader(inner)
    cached.read("q", [Passage("1", "", "ab")])
    cached.read("q", [Passage("1", "a", "b")])
    cached.read("qa", [Passage("1", "", "b")])
    cached.read("q", [Passage("2", "", "ab")])  # the same words under another id: known
    inner.fingerprint = "two"
    cached.read("q", [Passage("1", "", "ab")])
    assert inner.read_passages == 4


def test_memory_is_bounded_and_forgets_what_was_used_longest_ago():
    inner = CountingReader()
    cached = CachedReader(inner, memory=3)
    cached.read("q", PASSAGES[:3])
    cached.read("q", PASSAGES[:1])
    cached.read("q", PASSAGES[3:4])
    inner.read_passages = 0
    cached.read("q", [PASSAGES[0], PASSAGES[3]])
    assert inner.read_passages == 0
    cached.read("q", [PASSAGES[1]])
    assert inner.read_passages == 1


def test_a_batch_larger_than_memory_is_still_answered():
    cached = CachedReader(CountingReader(), memory=2)
    assert cached.read("q", PASSAGES) == CountingReader().read("q", PASSAGES)


def test_the_disk_remembers_across_readers(tmp_path: Path):
    path = tmp_path / "deep" / "readings.sqlite"
    CachedReader(CountingReader(), disk=path).read("q", PASSAGES)
    inner = CountingReader()
    assert CachedReader(inner, disk=path).read("q", PASSAGES) == CountingReader().read("q", PASSAGES)
    assert inner.read_passages == 0


def test_the_disk_is_bounded(tmp_path: Path):
    disk = ReadingFile(tmp_path / "readings.sqlite", rows=25)
    cached = CachedReader(CountingReader(), disk=disk)
    for question in "abcdefgh":
        cached.read(question, PASSAGES)
    assert len(disk) == 25


def test_a_file_that_is_no_cache_is_one_clear_error(tmp_path: Path):
    path = tmp_path / "readings.sqlite"
    path.write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(CacheError, match="delete the file"):
        ReadingFile(path)


def test_lone_surrogates_do_not_break_the_key(tmp_path: Path):
    cached = CachedReader(CountingReader(), disk=tmp_path / "readings.sqlite")
    assert cached.read("q\ud800", [Passage("1", "", "\udfff x")])[0].answer == "\udfff"


def _read_all(path: Path, questions: list[str]) -> None:
    cached = CachedReader(CountingReader(), memory=1, disk=path)
    for question in questions:
        assert cached.read(question, PASSAGES) == CountingReader().read(question, PASSAGES)


@pytest.mark.long
def test_several_processes_share_one_file(tmp_path: Path):
    path = tmp_path / "readings.sqlite"
    questions = [f"question {i}" for i in range(20)]
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_read_all, args=(path, questions)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM readings").fetchone() == (200,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
