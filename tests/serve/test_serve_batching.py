"""Clients share batches; nobody harms another."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from serving_world import TIMEOUT, GatedReader, MakeClient, wait_until, wait_until_running

from orienteer.serve import Limits
from orienteer.serve.batching import Batcher, QueuedJob, batch_or_one_by_one, next_batch
from orienteer.serve.memory import freeze_heap


def test_what_waits_goes_in_one_batch_in_the_order_it_came() -> None:
    begun, go = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def work(jobs: Sequence[int]) -> list[int]:
        batches.append(list(jobs))
        begun.set()
        go.wait(TIMEOUT)
        return [job * 10 for job in jobs]

    batcher: Batcher[int, int] = Batcher(work, max_cost=4, name="test")
    first = batcher.submit(0)
    begun.wait(TIMEOUT)
    rest = [batcher.submit(job) for job in range(1, 8)]
    go.set()
    assert [future.result(TIMEOUT) for future in (first, *rest)] == [0, 10, 20, 30, 40, 50, 60, 70]
    assert batches == [[0], [1, 2, 3, 4], [5, 6, 7]]
    batcher.close()
    assert not batcher.alive


def test_a_second_thread_takes_what_would_wait_for_a_batch() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(jobs: Sequence[int]) -> list[int]:
        if jobs[0] == 0:
            begun.set()
            go.wait(TIMEOUT)
        return list(jobs)

    batcher: Batcher[int, int] = Batcher(work, max_cost=4, name="test", threads=2)
    first = batcher.submit(0)
    begun.wait(TIMEOUT)
    assert batcher.submit(1).result(TIMEOUT) == 1
    assert not first.done()
    go.set()
    assert first.result(TIMEOUT) == 0
    batcher.close()
    assert not batcher.alive


def test_a_cancelled_job_is_not_done() -> None:
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(jobs: Sequence[int]) -> list[int]:
        begun.set()
        go.wait(TIMEOUT)
        done.extend(jobs)
        return list(jobs)

    batcher: Batcher[int, int] = Batcher(work, max_cost=4, name="test")
    batcher.submit(1)
    begun.wait(TIMEOUT)
    cancelled, last = batcher.submit(2), batcher.submit(3)
    assert cancelled.cancel()
    go.set()
    assert last.result(TIMEOUT) == 3
    assert done == [1, 3]


def test_jobs_that_wait_when_the_loop_ends_are_cancelled() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(jobs: Sequence[int]) -> list[int]:
        begun.set()
        go.wait(TIMEOUT)
        return list(jobs)

    batcher: Batcher[int, int] = Batcher(work, max_cost=1, name="test")
    first = batcher.submit(1)
    begun.wait(TIMEOUT)
    late = batcher.submit(2)
    late.add_done_callback(lambda _: go.set())  # `close` cancels it, then waits for the first
    batcher.close()
    assert first.result(TIMEOUT) == 1
    for refused in (late, batcher.submit(3)):
        with pytest.raises(CancelledError):
            refused.result(TIMEOUT)
    assert not batcher.alive


def in_batches(jobs: Sequence[tuple[float, float]], max_cost: float, now: float) -> list[list[int]]:
    """In which batches jobs are done that came at these times and cost so much, each batch a second long."""
    queue: list[QueuedJob[int, None]] = [QueuedJob(n, cost, since) for n, (since, cost) in enumerate(jobs)]
    batches = []
    while queue:
        batch = next_batch([each for each in queue if each.since <= now], max_cost, now)
        batches.append([each.job for each in batch])
        queue = [each for each in queue if each not in batch]
        now += 1
    return batches


def test_a_batch_costs_no_more_than_it_may_and_an_expensive_job_goes_alone() -> None:
    assert in_batches([(0, 5), (0, 5), (0, 5), (0, 100)], max_cost=10, now=1) == [[0, 1], [2], [3]]


def test_a_cheap_job_passes_an_expensive_one_that_came_just_before() -> None:
    assert in_batches([(0, 25), (1, 1)], max_cost=1, now=2) == [[1], [0]]


def test_an_expensive_job_comes_though_cheap_ones_come_without_end() -> None:
    batches = in_batches([(0, 25), *((float(n), 1) for n in range(40))], max_cost=1, now=1)
    assert 1 < batches.index([0]) < 10


def test_a_bad_job_fails_alone() -> None:
    def work(jobs: Sequence[int]) -> list[float]:
        return [1 / job for job in jobs]

    one, bad, two = batch_or_one_by_one(work, [1, 0, 2])
    assert (one, two) == (1.0, 0.5)
    assert isinstance(bad, ZeroDivisionError)


def test_a_wrong_number_of_results_is_a_failure() -> None:
    assert all(isinstance(each, RuntimeError) for each in batch_or_one_by_one(lambda jobs: [], [1, 2]))


def keep_busy(
    clients: ThreadPoolExecutor, reader: GatedReader, questions: Sequence[Callable[[], Any]]
) -> list[Future[Any]]:
    """Each question keeps a thread of the lane of questions, until the reader's gate is set; their answers."""
    answers = []
    for number, question in enumerate(questions, 1):
        answers.append(clients.submit(question))
        wait_until(lambda number=number: reader.calls == number)  # type: ignore[misc]
    return answers


@pytest.mark.long
def test_sessions_of_several_clients_share_the_readers_batches(make_client: MakeClient) -> None:
    reader = GatedReader()
    client = make_client(reader=reader)

    def ask(number: int) -> Any:
        body = {"question": f"who lit lamp {number} on the reef or the tower", "steps": 3, "agent": "prf-answer"}
        return client.post("/api/sessions", json=body).json()

    with ThreadPoolExecutor(13) as clients:
        first = keep_busy(clients, reader, [partial(ask, 0), partial(ask, 1)])
        others = [clients.submit(ask, number) for number in range(2, 13)]
        wait_until_running(client, 13)
        reader.gate.set()
        sessions = [future.result(TIMEOUT) for future in (*first, *others)]
    assert all(session["ended"] == "steps" for session in sessions)
    assert max(reader.batches) == 11 * 5


@pytest.mark.long
def test_agents_with_other_settings_share_a_batch_where_they_can(make_client: MakeClient) -> None:
    reader = GatedReader()
    client = make_client(reader=reader)

    def ask(body: dict[str, Any]) -> Any:
        return client.post("/api/sessions", json={"question": "who lit the lamp on the tower", **body}).json()

    bodies = [
        {"agent": "bm25+ps"}, {"agent": "prf-answer", "steps": 1}, {"agent": "prf-idf-t", "steps": 2},
        {"agent": "prf-answer", "steps": 3},
    ]  # fmt: skip
    with ThreadPoolExecutor(6) as clients:
        keep_busy(clients, reader, [partial(ask, bodies[0])] * 2)
        answers = [clients.submit(ask, body) for body in bodies]
        wait_until_running(client, 6)
        reader.gate.set()
        sessions = [answer.result(TIMEOUT) for answer in answers]
    assert max(reader.batches) == 4 * 5
    assert [len(session["steps"]) for session in sessions] == [1, 2, 3, 4]
    for body, session in zip(bodies, sessions, strict=True):
        assert ask(body)["steps"][-1]["best"] == session["steps"][-1]["best"]


@pytest.mark.long
def test_more_agents_than_allowed_are_told_to_come_back(make_client: MakeClient) -> None:
    reader = GatedReader()
    client = make_client(reader=reader, limits=Limits(running=2))

    def ask(n: int) -> Any:
        return client.post("/api/sessions", json={"question": f"who lit lamp {n}", "steps": 2})

    with ThreadPoolExecutor(2) as clients:
        allowed = [clients.submit(ask, n) for n in range(2)]
        wait_until_running(client, 2)
        refused = [ask(n) for n in range(2, 6)]
        reader.gate.set()
        assert [answer.result(TIMEOUT).status_code for answer in allowed] == [200, 200]
    assert [answer.status_code for answer in refused] == [429] * 4
    assert refused[0].headers["retry-after"]
    assert "try again" in refused[0].json()["message"]
    assert ask(9).status_code == 200


def test_what_a_server_is_made_of_is_not_collected_again() -> None:
    kept = [[number] for number in range(1000)]
    try:
        freeze_heap()
        assert gc.get_freeze_count() > len(kept)
        assert not any(each is kept for each in gc.get_objects())
    finally:
        gc.unfreeze()
