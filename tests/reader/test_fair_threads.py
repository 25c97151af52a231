"""Callers share threads: few rows overtake many, and the many are done in the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tiny import CONFIG, tiny_tensors, tiny_tokenizer

from orienteer.data import Passage
from orienteer.reader import TrainedReader
from orienteer.reader.bi_encoder import BiEncoder, Pooling
from orienteer.reader.fair_threads import FairThreads

TIMEOUT = 300.0  # seconds; only a test that hangs waits so long


class Gate:
    """Notes each row when it is run, and holds it until `open` is set."""

    def __init__(self, threads: int = 1) -> None:
        self.started: list[Any] = []
        self.open = threading.Event()
        self._busy = threading.Semaphore(0)
        self._threads = threads

    def __call__(self, row: Any) -> Any:
        self.started.append(row)
        self._busy.release()
        assert self.open.wait(TIMEOUT)
        return row

    def wait_until_busy(self) -> None:
        for _ in range(self._threads):
            assert self._busy.acquire(timeout=TIMEOUT)


def run(threads: FairThreads, gate: Gate, callers: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """What each caller gets. The first one's first row runs when the others come."""
    first = threads.map(gate, callers[0])
    gate.wait_until_busy()
    others = [threads.map(gate, rows) for rows in callers[1:]]
    gate.open.set()
    return [list(results) for results in (first, *others)]


def test_a_few_rows_overtake_the_rest_of_another_callers_many() -> None:
    gate = Gate()
    many, few = [("many", n) for n in range(30)], [("few", n) for n in range(3)]
    assert run(FairThreads(1, "test", clock=lambda: 0.0), gate, [many, few]) == [many, few]
    assert gate.started[:6] == [many[0], few[0], many[1], few[1], many[2], few[2]]
    assert gate.started[6:] == many[3:]


def test_many_rows_come_before_what_is_sent_much_later() -> None:
    gate = Gate()
    times = iter([0.0, 1.0, 1000.0])
    many, soon, late = ([(name, n) for n in range(30)] for name in ("many", "soon", "late"))
    run(FairThreads(1, "test", clock=lambda: next(times)), gate, [many, soon, late])
    assert gate.started.index(soon[0]) < gate.started.index(many[-1]) < gate.started.index(late[0])


def test_the_rows_of_a_caller_who_has_failed_are_not_run() -> None:
    threads = FairThreads(1, "test")
    ran: list[int] = []
    gate = threading.Event()

    def work(row: int) -> int:
        ran.append(row)
        if row == 0:
            raise ValueError("a bad row")
        assert gate.wait(TIMEOUT)
        return row

    results = threads.map(work, range(100))
    with pytest.raises(ValueError, match="a bad row"):
        next(results)
    gate.set()
    assert list(threads.map(str, ["another caller's"])) == ["another caller's"]
    assert len(ran) <= 2


def overtakes(threads: FairThreads, model: Any, name: str, ask: Callable[[str, int], object]) -> list[Any]:
    """The rows of `model.name` in the order in which they are run: of "many", and of "few" who comes later."""
    gate, queued, method, mapped = Gate(2), threading.Event(), getattr(model, name), threads.map

    def held(row: Any) -> Any:
        gate(row)
        return method(row)

    def noticed(work: Callable[[Any], Any], rows: Sequence[Any]) -> Iterable[Any]:
        results = mapped(work, rows)
        queued.set()
        return results

    threads._clock = lambda: 0.0
    threads.map = noticed  # type: ignore[assignment, method-assign]
    setattr(model, name, held)
    with ThreadPoolExecutor(2) as callers:
        many = callers.submit(ask, "many", 30)
        assert queued.wait(TIMEOUT)
        gate.wait_until_busy()
        queued.clear()
        few = callers.submit(ask, "few", 3)
        assert queued.wait(TIMEOUT)
        gate.open.set()
        many.result()
        few.result()
    return gate.started


def test_a_reader_reads_a_few_passages_before_the_rest_of_another_callers_many(tiny_folder: Path) -> None:
    reader = TrainedReader.from_pretrained(tiny_folder, threads=2)
    questions = {"many": "what is the capital of france", "few": "who"}

    def ask(who: str, count: int) -> object:
        return reader.read(questions[who], [Passage(f"{n}", "", f"paris {n} lies on the river") for n in range(count)])

    assert reader._workers is not None
    rows = overtakes(reader._workers, reader, "_outputs", ask)
    assert len(rows) == 33
    shorter = min(window.question_size for window in rows)
    assert sum(window.question_size == shorter for window in rows[:9]) == 3


def test_a_bi_encoder_encodes_a_few_texts_before_the_rest_of_another_callers_many() -> None:
    tokenizer, threads = tiny_tokenizer(), FairThreads(2, "test")
    config = {**CONFIG, "vocab_size": tokenizer.get_vocab_size()}
    tensors = {name: value for name, value in tiny_tensors().items() if name.startswith("encoder.")}
    encoder = BiEncoder(config, tensors, tokenizer, Pooling(), 2, threads)
    texts = {"many": "the capital of france", "few": "paris"}
    rows = overtakes(
        threads, encoder, "_vector", lambda who, count: list(encoder.passages([texts[who] for _ in range(count)]))
    )
    assert len(rows) == 33
    assert sum(len(row) == min(map(len, rows)) for row in rows[:9]) == 3
