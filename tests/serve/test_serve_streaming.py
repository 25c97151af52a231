"""Sessions as they unfold: events, deadlines, clients that leave, a server that dies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import MakeClient, SlowEngine, as_program

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


def test_a_streamed_session_is_the_whole_one_in_pieces(client: TestClient) -> None:
    with streamed(client) as stream:
        told = list(stream)
    assert [name for name, _ in told] == ["session", *["step"] * 5, "end"]
    whole = client.get(f"/api/sessions/{told[0][1]['id']}").json()
    assert [data["step"] for name, data in told if name == "step"] == whole["steps"]
    passages = {id: passage for name, data in told if name == "step" for id, passage in data["passages"].items()}
    assert passages == whole["passages"]
    assert told[-1][1]["answer"] == whole["answer"]


def test_a_refused_question_is_refused_before_the_stream_begins(client: TestClient) -> None:
    answer = client.post("/api/sessions", json={**BODY, "agent": "nobody"}, headers=STREAM)
    assert answer.status_code == 422


def test_a_mistake_in_mid_stream_is_an_event(client: TestClient) -> None:
    with streamed(client, question="zyxwv qponm") as stream:
        told = dict(stream)
    id = told["end"]["id"]
    path = f"/api/sessions/{id}/agent"
    with client.stream("POST", path, json={"steps": 2}, headers=STREAM) as response:
        told = dict(events(response))
    assert "ask again in other words" in told["error"]["message"]


def test_a_failure_of_the_server_in_mid_stream_is_an_event_too(make_client: MakeClient) -> None:
    class Breaking(LexicalReader):
        def read_many(self, batch: Any) -> Any:
            if self.batches:
                raise RuntimeError("out of memory")
            return super().read_many(batch)

    with streamed(make_client(reader=Breaking()), agent="prf-idf-c", steps=8) as stream:
        told = list(stream)
    assert told[-1][0] == "error"
    assert "log says why" in told[-1][1]["message"]


def test_a_deadline_gives_the_session_so_far_which_can_be_continued(make_client: MakeClient) -> None:
    client = make_client(engines={"slow": SlowEngine(0.3)})
    started = time.monotonic()
    partial = client.post("/api/sessions", json={**BODY, "steps": 20, "deadline": 0.5}).json()
    assert time.monotonic() - started < 3
    assert partial["stopped"] == "deadline"
    assert partial["ended"] is None
    assert 1 <= len(partial["steps"]) < 10
    assert partial["answer"]
    more = client.post(f"/api/sessions/{partial['id']}/agent", json={"steps": 1}).json()
    assert len(more["steps"]) == len(partial["steps"]) + 1
    assert more["stopped"] is None


def test_a_deadline_before_the_first_step_gives_an_empty_session(make_client: MakeClient) -> None:
    client = make_client(engines={"slow": SlowEngine(0.5)})
    partial = client.post("/api/sessions", json={**BODY, "deadline": 0.05}).json()
    assert partial["steps"] == []
    assert partial["stopped"] == "deadline"
    again = client.post(f"/api/sessions/{partial['id']}/agent", json={"steps": 1})
    assert again.status_code == 200
    assert again.json()["steps"]


def test_two_at_once_in_one_session_are_not_let(make_client: MakeClient, serve: Callable[..., str]) -> None:
    address = serve(engines={"slow": SlowEngine(0.2)})
    with httpx.Client(base_url=address) as client, streamed(client) as stream:
        id = next(stream)[1]["id"]
        next(stream)
        refused = httpx.post(f"{address}api/sessions/{id}/undo")
        assert refused.status_code == 409
        assert "at work" in refused.json()["message"]


def test_a_client_that_leaves_stops_the_agent_and_keeps_the_session(serve: Callable[..., str]) -> None:
    address = serve(engines={"slow": SlowEngine(0.1)})
    with httpx.Client(base_url=address) as client:
        with streamed(client, steps=40) as stream:
            id = next(stream)[1]["id"]
            next(stream)
        until = time.monotonic() + 10
        while "orienteer_sessions_running 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.05)
        session = client.get(f"/api/sessions/{id}").json()
        assert 1 <= len(session["steps"]) < 20
        refined = client.post(f"/api/sessions/{id}/refine", json={"op": "+", "term": "lamp"})
        assert refined.status_code == 200


def test_a_server_killed_in_mid_stream_is_an_error_and_what_was_saved_is_there_again(tmp_path: Path) -> None:
    with as_program(tmp_path, seconds=0.2) as (address, process), httpx.Client(base_url=address) as client:
        saved = client.post("/api/sessions", json={**BODY, "steps": 1}).json()
        client.post(f"/api/sessions/{saved['id']}/save")
        told: list[str] = []

        def watch() -> None:
            with streamed(client, steps=40) as stream:
                for name, data in stream:
                    told.append(name)
                    if name == "step" and data["step"]["number"] == 1:
                        process.kill()

        with pytest.raises(httpx.HTTPError):
            watch()
        assert "step" in told
        assert "end" not in told
    with as_program(tmp_path) as (address, _), httpx.Client(base_url=address) as client:
        assert [each["id"] for each in client.get("/api/sessions").json()["sessions"]] == [saved["id"]]
        again = client.get(f"/api/sessions/{saved['id']}").json()
        assert [step["best"] for step in again["steps"]] == [step["best"] for step in saved["steps"]]
