"""Reading ahead in threads: the order stays, memory is bounded, no thread outlives its reader."""

from __future__ import annotations

import gc
import lzma
import threading
import time

import pytest

from orienteer.data import Passage, compression, read_passages, write_jsonl
from orienteer.data.prefetch import Prefetcher
from orienteer.errors import DataError


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "orienteer-read-ahead"]


@pytest.fixture
def shards(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "BLOCK", 1 << 10)
    monkeypatch.setattr(compression, "_READ", 1 << 8)
    paths = [tmp_path / f"{n}.jsonl.xz" for n in range(4)]
    for n, path in enumerate(paths):
        write_jsonl(path, (Passage(f"{n}-{i}", "", f"{i**9:x}" * 5) for i in range(3000)))
    return paths


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert reading_threads() == []


def test_the_order_is_that_of_the_files(shards):
    expected = [f"{n}-{i}" for n in range(4) for i in range(3000)]
    assert [passage.id for passage in read_passages(shards)] == expected


def test_at_most_two_files_are_open_at_once(shards):
    most = 0
    for _ in read_passages(shards):
        most = max(most, len(reading_threads()))
    assert 1 <= most <= 2


def test_a_reader_that_is_never_asked_starts_no_thread(shards):
    reading = read_passages(shards)
    assert reading_threads() == []
    reading.close()


def test_closing_early_ends_the_threads(shards):
    reading = read_passages(shards)
    next(reading)
    assert len(reading_threads()) == 2
    reading.close()
    assert reading_threads() == []


def test_a_reader_that_is_dropped_ends_the_threads(shards):
    for passage in read_passages(shards):
        if passage.id == "1-5":
            break
    del passage
    gc.collect()
    assert reading_threads() == []


def test_an_error_of_the_caller_ends_the_threads(shards):
    def fails(passage):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(map(fails, read_passages(shards)))
    gc.collect()
    assert reading_threads() == []


def test_a_bad_row_ends_the_threads(shards):
    shards[0].write_bytes(lzma.compress(b'{"id": 1, "text": "a"}\n{"id": ""}\n' * 1000))
    with pytest.raises(DataError, match=r"0\.jsonl\.xz:2: "):
        list(read_passages(shards))
    gc.collect()
    assert reading_threads() == []


def test_an_error_ahead_is_raised_in_its_turn(shards):
    shards[1].write_bytes(shards[1].read_bytes()[:-10])
    reading = read_passages(shards)
    assert [next(reading).id for _ in range(3001)][-1] == "1-0"
    with pytest.raises(DataError, match=r"1\.jsonl\.xz: the xz file is cut short"):
        list(reading)


def test_no_more_blocks_are_made_than_there_is_room_for():
    made = []

    def blocks():
        for n in range(100):
            made.append(n)
            yield b"%d" % n

    ahead = Prefetcher(blocks(), room=3)
    reading = iter(ahead)
    assert next(reading) == b"0"
    while len(made) < 5:
        time.sleep(0.01)
    # One was taken, three wait, and one is in the hands of the thread.
    time.sleep(0.1)  # enough for a mistake to show on most machines; without one nothing more can be made
    assert len(made) == 5
    assert list(reading) == [b"%d" % n for n in range(1, 100)]
    ahead.close()


def test_closing_runs_what_the_source_does_at_its_end():
    ended = []

    def blocks():
        try:
            while True:
                yield b"x"
        finally:
            ended.append(True)

    ahead = Prefetcher(blocks(), room=2)
    ahead.close()
    assert ended == [True]
