"""Clients share batches; nobody harms another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest
from serving_world import MakeClient, SlowReader

from orienteer.serve import Limits
from orienteer.serve.batching import Batcher, Waiting, most_urgent, together_or_alone


def test_what_waits_goes_in_one_batch_in_the_order_it_came() -> None:
    begun, go = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def work(jobs: Sequence[int]) -> list[int]:
        batches.append(list(jobs))
        begun.set()
        go.wait(10)
        return [job * 10 for job in jobs]

    batcher: Batcher[int, int] = Batcher(work, together=4, name="test")
    first = batcher.submit(0)
    begun.wait(10)
    rest = [batcher.submit(job) for job in range(1, 8)]
    go.set()
    assert [future.result(10) for future in (first, *rest)] == [0, 10, 20, 30, 40, 50, 60, 70]
    assert batches == [[0], [1, 2, 3, 4], [5, 6, 7]]
    batcher.close()
    assert not batcher.alive


def test_a_cancelled_job_is_not_done() -> None:
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(jobs: Sequence[int]) -> list[int]:
        begun.set()
        go.wait(10)
        done.extend(jobs)
        return list(jobs)

    batcher: Batcher[int, int] = Batcher(work, together=4, name="test")
    batcher.submit(1)
    begun.wait(10)
    cancelled, last = batcher.submit(2), batcher.submit(3)
    assert cancelled.cancel()
    go.set()
    assert last.result(10) == 3
    assert done == [1, 3]


def test_jobs_that_wait_when_the_loop_ends_are_cancelled() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(jobs: Sequence[int]) -> list[int]:
        begun.set()
        go.wait(10)
        return list(jobs)

    batcher: Batcher[int, int] = Batcher(work, together=1, name="test")
    first = batcher.submit(1)
    begun.wait(10)
    late = batcher.submit(2)
    threading.Timer(0.1, go.set).start()
    batcher.close()
    assert first.result(10) == 1
    for refused in (late, batcher.submit(3)):
        with pytest.raises(CancelledError):
            refused.result(10)
    assert not batcher.alive


def in_batches(jobs: Sequence[tuple[float, float]], together: float, now: float) -> list[list[int]]:
    """In which batches jobs are done that came at these times and cost so much, each batch a second long."""
    waiting: list[Waiting[int, None]] = [Waiting(n, cost, since) for n, (since, cost) in enumerate(jobs)]
    batches = []
    while waiting:
        batch = most_urgent([each for each in waiting if each.since <= now], together, now)
        batches.append([each.job for each in batch])
        waiting = [each for each in waiting if each not in batch]
        now += 1
    return batches


def test_a_batch_costs_no_more_than_it_may_and_a_dear_job_goes_alone() -> None:
    assert in_batches([(0, 5), (0, 5), (0, 5), (0, 100)], together=10, now=1) == [[0, 1], [2], [3]]


def test_a_cheap_job_passes_a_dear_one_that_came_just_before() -> None:
    assert in_batches([(0, 25), (1, 1)], together=1, now=2) == [[1], [0]]


def test_a_dear_job_comes_though_cheap_ones_come_without_end() -> None:
    batches = in_batches([(0, 25), *((float(n), 1) for n in range(40))], together=1, now=1)
    assert 1 < batches.index([0]) < 10


def test_a_bad_job_fails_alone() -> None:
    def work(jobs: Sequence[int]) -> list[float]:
        return [1 / job for job in jobs]

    one, bad, two = together_or_alone(work, [1, 0, 2])
    assert (one, two) == (1.0, 0.5)
    assert isinstance(bad, ZeroDivisionError)


def test_a_wrong_number_of_results_is_a_failure() -> None:
    assert all(isinstance(each, RuntimeError) for each in together_or_alone(lambda jobs: [], [1, 2]))


def test_sessions_of_several_clients_share_the_readers_batches(make_client: MakeClient) -> None:
    reader = SlowReader(0.2)
    client = make_client(reader=reader)
    questions = [f"who lit lamp {n} on the reef or the tower" for n in range(12)]

    def ask(question: str) -> Any:
        return client.post("/api/sessions", json={"question": question, "steps": 3}).json()

    alone = len(ask("who lit the lamp")["steps"])
    before = len(reader.batches)
    assert before <= alone
    with ThreadPoolExecutor(12) as clients:
        sessions = list(clients.map(ask, questions))
    assert all(session["ended"] == "steps" for session in sessions)
    moves = sum(len(session["steps"]) for session in sessions)
    assert len(reader.batches) - before < moves / 2


def test_agents_with_other_settings_share_a_batch_where_they_can(make_client: MakeClient) -> None:
    reader = SlowReader(0.4)
    client = make_client(reader=reader)

    def ask(body: dict[str, Any]) -> Any:
        return client.post("/api/sessions", json={"question": "who lit the lamp on the tower", **body}).json()

    bodies = [
        {"agent": "bm25+ps"}, {"agent": "prf-answer", "steps": 1}, {"agent": "prf-idf-t", "steps": 2},
        {"agent": "prf-answer", "steps": 3},
    ]  # fmt: skip
    with ThreadPoolExecutor(4) as clients:
        together = list(clients.map(ask, bodies))
    assert len(reader.batches) <= 6
    assert [len(session["steps"]) for session in together] == [1, 2, 3, 4]
    for body, session in zip(bodies, together, strict=True):
        assert ask(body)["steps"][-1]["best"] == session["steps"][-1]["best"]


def test_more_agents_than_allowed_are_told_to_come_back(make_client: MakeClient) -> None:
    client = make_client(reader=SlowReader(1.0), limits=Limits(running=2))

    def ask(n: int) -> Any:
        return client.post("/api/sessions", json={"question": f"who lit lamp {n}", "steps": 2})

    with ThreadPoolExecutor(6) as clients:
        answers = list(clients.map(ask, range(6)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 4
    assert refused[0].headers["retry-after"]
    assert "try again" in refused[0].json()["message"]
    assert ask(9).status_code == 200
