"""Sessions as they unfold: events, deadlines, clients that leave, a server that dies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import TIMEOUT, GatedEngine, MakeClient, as_program, wait_until_running

from orienteer.serve import sessions

BODY = {"question": "who lit the first lamp on the reef", "steps": 4}
STREAM = {"accept": "text/event-stream"}


def events(response: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


@contextmanager
def streamed(client: Any, path: str = "/api/sessions", **body: Any) -> Iterator[Any]:
    with client.stream("POST", path, json={**BODY, **body}, headers=STREAM) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events(response)


def connected(address: str) -> httpx.Client:
    return httpx.Client(base_url=address, timeout=TIMEOUT)


@pytest.mark.long
def test_a_streamed_session_is_the_whole_one_in_pieces(client: TestClient) -> None:
    with streamed(client) as stream:
        streamed_events = list(stream)
    assert [name for name, _ in streamed_events] == ["session", *["step"] * 5, "end"]
    whole = client.get(f"/api/sessions/{streamed_events[0][1]['id']}").json()
    passages = {
        id: passage for name, data in streamed_events if name == "step" for id, passage in data["passages"].items()
    }
    assert passages == whole["passages"]
    assert streamed_events[-1][1]["answer"] == whole["answer"]


def test_a_refused_question_is_refused_before_the_stream_begins(client: TestClient) -> None:
    answer = client.post("/api/sessions", json={**BODY, "agent": "nobody"}, headers=STREAM)
    assert answer.status_code == 422


def test_a_mistake_in_mid_stream_is_an_event(client: TestClient) -> None:
    with streamed(client, question="zyxwv qponm") as stream:
        by_name = dict(stream)
    id = by_name["end"]["id"]
    path = f"/api/sessions/{id}/agent"
    with client.stream("POST", path, json={"steps": 2}, headers=STREAM) as response:
        by_name = dict(events(response))
    assert "ask again in other words" in by_name["error"]["message"]


def test_a_failure_of_the_server_in_mid_stream_is_an_event_too(make_client: MakeClient) -> None:
    class Breaking(LexicalReader):
        def read_many(self, batch: Any) -> Any:
            if self.batches:
                raise RuntimeError("out of memory")
            return super().read_many(batch)

    with streamed(make_client(reader=Breaking()), agent="prf-idf-c", steps=8) as stream:
        streamed_events = list(stream)
    assert streamed_events[-1][0] == "error"
    assert "log says why" in streamed_events[-1][1]["message"]


@pytest.mark.long
def test_a_deadline_gives_the_session_so_far_which_can_be_continued(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = GatedEngine(2)
    engine.gate.set()
    client = make_client(engines={"lighthouses": engine})
    # The server's clock leaps past the deadline when the second refinement is searched.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (1000 if engine.reached.is_set() else 0))
    monkeypatch.setattr(sessions, "time", clock)
    body = {**BODY, "steps": 20, "agent": "prf-answer", "deadline": 100}
    partial = client.post("/api/sessions", json=body).json()
    assert partial["stopped"] == "deadline"
    assert partial["ended"] is None
    assert len(partial["steps"]) == 3
    assert partial["answer"]
    more = client.post(f"/api/sessions/{partial['id']}/agent", json={"steps": 1}).json()
    assert len(more["steps"]) == 4
    assert more["stopped"] is None


@pytest.mark.long
def test_a_deadline_before_the_first_step_gives_an_empty_session(make_client: MakeClient) -> None:
    engine = GatedEngine(0)
    client = make_client(engines={"lighthouses": engine})
    partial = client.post("/api/sessions", json={**BODY, "deadline": 0.05}).json()
    assert partial["steps"] == []
    assert partial["stopped"] == "deadline"
    engine.gate.set()
    again = client.post(f"/api/sessions/{partial['id']}/agent", json={"steps": 1})
    assert again.status_code == 200
    assert again.json()["steps"]


@pytest.mark.long
def test_two_at_once_in_one_session_are_not_let(serve: Callable[..., str]) -> None:
    engine = GatedEngine(1)
    address = serve(engines={"lighthouses": engine})
    with connected(address) as client, streamed(client, agent="prf-answer") as stream:
        id = next(stream)[1]["id"]
        next(stream)
        refused = httpx.post(f"{address}api/sessions/{id}/undo", timeout=TIMEOUT)
        assert refused.status_code == 409
        assert "at work" in refused.json()["message"]
        engine.gate.set()


@pytest.mark.long
def test_a_client_that_leaves_stops_the_agent_and_keeps_the_session(serve: Callable[..., str]) -> None:
    engine = GatedEngine(2)
    address = serve(engines={"lighthouses": engine})
    with connected(address) as client:
        with streamed(client, steps=40, agent="prf-answer") as stream:
            id = next(stream)[1]["id"]
            next(stream)
        wait_until_running(client, 0)
        engine.gate.set()
        session = client.get(f"/api/sessions/{id}").json()
        assert 1 <= len(session["steps"]) <= 2
        refined = client.post(f"/api/sessions/{id}/refine", json={"op": "+", "term": "lamp"})
        assert refined.status_code == 200


@pytest.mark.long
def test_a_server_killed_in_mid_stream_is_an_error_and_what_was_saved_is_there_again(tmp_path: Path) -> None:
    with as_program(tmp_path, refinements=2) as (address, process), connected(address) as client:
        saved = client.post("/api/sessions", json={**BODY, "steps": 1, "agent": "prf-answer"}).json()
        client.post(f"/api/sessions/{saved['id']}/save")
        names: list[str] = []

        def watch() -> None:
            with streamed(client, steps=40, agent="prf-answer") as stream:
                for name, data in stream:
                    names.append(name)
                    if name == "step" and data["step"]["number"] == 1:
                        process.kill()

        with pytest.raises(httpx.HTTPError):
            watch()
        assert names == ["session", "step", "step"]
    with as_program(tmp_path) as (address, _), connected(address) as client:
        assert [each["id"] for each in client.get("/api/sessions").json()["sessions"]] == [saved["id"]]
        again = client.get(f"/api/sessions/{saved['id']}").json()
        assert [step["best"] for step in again["steps"]] == [step["best"] for step in saved["steps"]]
