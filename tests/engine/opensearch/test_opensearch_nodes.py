"""Nodes of a real cluster that die, hang or fill up while Orienteer is at work: only where there are three nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orienteer.bundled import bundled_engine, bundled_passages, bundled_questions
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings, bulk_load
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.errors import ServiceError
from orienteer.query import Query

SESSIONS, STEPS = 40, 4


@pytest.fixture(scope="module")
def three(cluster: Any) -> Any:
    if len(cluster.nodes) < 3:
        pytest.skip("needs three nodes: make test-opensearch SERVERS=opensearch-3:3")
    return cluster


@pytest.fixture
def service(three: Any) -> Iterator[Service]:
    settings = ServiceSettings(timeout=5, attempts=60, hosts=tuple(three.urls[1:]), concurrency=2)
    service = Service(read_address(f"{three.url}/copies"), settings)
    service.ask("DELETE", "", ignore_unavailable="true")
    load(service, bundled_passages(), shards=3, replicas=2)
    three.wait("green")
    yield service
    service.close()


def played(engine: Any, first: int) -> list[Any]:
    """One session of a few steps, by an agent that asks little."""
    from test_opensearch_engine import Reader

    from orienteer.agents import make_agent
    from orienteer.session import Environment, Settings, record, run_sessions

    entry = make_agent("prf-idf-t", engine, Settings(steps=STEPS))
    environment = Environment(engine, Reader(), entry.settings)
    questions = bundled_questions("train")[first : first + 1]
    run = run_sessions(environment, entry.agent, questions)
    return [record(session, environment, entry.name).steps for session in run.sessions]


class Player(threading.Thread):
    """Plays sessions until it is told to stop, at least some, and keeps what came of them."""

    def __init__(self, engine: Any):
        super().__init__(daemon=True)
        self.engine, self.stop, self.begun = engine, threading.Event(), threading.Semaphore(0)
        self.steps: dict[int, list[Any]] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            number = 0
            while number < SESSIONS or not self.stop.is_set():
                self.steps[number] = played(self.engine, number % SESSIONS)
                self.begun.release()
                number += 1
        except BaseException as error:
            self.error = error
            self.begun.release(1000)

    def after(self, sessions: int) -> None:
        """Return when so many more sessions were played."""
        for _ in range(sessions):
            assert self.begun.acquire(timeout=600)

    def check(self) -> None:
        """Every session is the embedded engine's."""
        self.stop.set()
        self.join(600)
        if self.error is not None:
            raise self.error
        assert not self.is_alive()
        embedded = bundled_engine()
        wanted = {number: played(embedded, number) for number in range(SESSIONS)}
        for number, steps in self.steps.items():
            assert steps == wanted[number % SESSIONS]


def test_no_session_is_lost_or_wrong_when_nodes_are_killed(three, service) -> None:
    player = Player(OpenSearchEngine(service))
    player.start()
    player.after(3)
    for node in (three.nodes[0], three.nodes[1]):  # the first is the one that is asked
        node.kill()
        player.after(3)
        node.start()
        three.wait("green")
        player.after(3)
    player.check()


def test_no_session_is_lost_or_wrong_in_a_rolling_restart(three, service) -> None:
    player = Player(OpenSearchEngine(service))
    player.start()
    for node in three.nodes:
        player.after(2)
        node.stop()
        node.start()
        three.wait("green")
    player.check()


def test_no_session_is_lost_or_wrong_when_a_node_hangs(three, service) -> None:
    player = Player(OpenSearchEngine(service))
    player.start()
    player.after(2)
    three.nodes[2].pause()
    try:
        player.after(2)
    finally:
        three.nodes[2].resume()
    three.wait("green")
    player.check()


def test_a_load_that_a_full_disk_stops_says_so_and_goes_on_afterwards(three, monkeypatch) -> None:
    monkeypatch.setattr(bulk_load, "BATCH_PASSAGES", 100)  # some are stored before the disk is full
    settings = ServiceSettings(timeout=60, attempts=2)
    service = Service(read_address(f"{three.url}/full"), settings)
    service.ask("DELETE", "", ignore_unavailable="true")
    passages = bundled_passages()

    def filling() -> Iterator[Any]:
        for number, passage in enumerate(passages):
            if number == 600:  # what a server does with every index of a node above its flood-stage watermark
                three.ask("PUT", "/full/_settings", {"index.blocks.read_only_allow_delete": True})
            yield passage

    with pytest.raises(ServiceError, match=r"read-only|read_only|blocked|disk") as caught:
        load(service, filling(), replicas=0)
    assert "\n" not in str(caught.value)
    three.ask("PUT", "/full/_settings", {"index.blocks.read_only_allow_delete": None})
    result = load(service, passages, replicas=0)
    assert result.passages == len(passages)
    assert result.already_there > 0
    assert OpenSearchEngine(service).search(Query("the river"), 5) == list(
        bundled_engine().search(Query("the river"), 5)
    )
