"""Files of sessions from strangers, many at one time, large ones: limits hold, nobody loses a session."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import TIMEOUT, GatedEngine, GatedReader, MakeClient, wait_until_running
from small_world import PASSAGES

from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.query import Refinement
from orienteer.reader.protocol import Reading
from orienteer.serve import Limits, session_routes
from orienteer.serve.memory import deep_size
from orienteer.serve.schemas import SessionView, session_view
from orienteer.serve.session_worker import SessionWorker, StepJob, StepTimes
from orienteer.serve.sessions import ServedSession
from orienteer.session import STOP, Action, Observation, Session, Settings

QUESTION = "who lit the first lamp on the reef"
JSON = {"content-type": "application/json"}


def ask(client: Any, **wanted: Any) -> dict[str, Any]:
    answer = client.post("/api/sessions", json={"question": QUESTION, "agent": "bm25", **wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def file_of(client: Any, session: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(client.get(f"/api/sessions/{session['id']}/file").content))


def load(client: Any, row: Any) -> httpx.Response:
    line = row if isinstance(row, bytes) else json.dumps(row).encode()
    answer: httpx.Response = client.post("/api/sessions/load", content=line, headers=JSON)
    return answer


@pytest.fixture
def row(client: TestClient) -> dict[str, Any]:
    session = ask(client)
    client.post(f"/api/sessions/{session['id']}/refine", json={"op": "or", "term": "keeper"})
    return file_of(client, session)


def test_a_loaded_session_obeys_the_limits_of_the_server(client: TestClient, row: dict[str, Any]) -> None:
    def settings(**changed: Any) -> dict[str, Any]:
        return {**row, "settings": {**row["settings"], **changed}}

    for hostile in (
        settings(hits=2000), settings(snippet=100_000), {**row, "question": "lamp " * 1000},
        {**row, "steps": [row["steps"][0], *row["steps"][1:] * 60]},
    ):  # fmt: skip
        loaded = load(client, hostile)
        assert loaded.status_code == 201
        assert not loaded.json()["playable"]
        path = f"/api/sessions/{loaded.json()['id']}"
        for action, body in (("refine", {"op": "or", "term": "visitors"}), ("branch", {"step": 0}), ("agent", {})):
            assert client.post(f"{path}/{action}", json=body).status_code == 409


def test_what_no_record_holds_is_refused_at_the_door(client: TestClient, row: dict[str, Any]) -> None:
    line = json.dumps(row)
    hostile: list[bytes] = [
        line.replace(QUESTION, "\\ud800 lamp").encode(),
        line.replace('"version": 1', f'"version": {"1" * 400}').encode(),
        line.replace('"rank": 1', f'"rank": {"9" * 400}').encode(),
        line.replace('"score": ', '"score": 1e999, "scores": ').encode(),
        b'{"version": 1, "steps": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b"[" * 1_000_000,
        line.encode()[: len(line) // 2],
        b"\xff\xfe" + line.encode(),
        b"null", b"[]", b"7", b"", b'"text"',
    ]  # fmt: skip
    wrong: list[Any] = [None, 7, True, "x", [], {}, -1, 1.5, [[]], {"x": []}]
    hostile += [json.dumps({**row, name: value}).encode() for name in row for value in wrong if row[name] != value]
    for each in hostile:
        answer = load(client, each)
        assert answer.status_code in (201, 422), (each[:200], answer.text)
        if answer.status_code == 201:  # a wrong value that a record may have: it can be shown, listed and deleted
            assert client.get(f"/api/sessions/{answer.json()['id']}").status_code == 200
    assert client.get("/api/sessions").status_code == 200
    for each in hostile[:13]:
        assert load(client, each).status_code == 422, each[:200]


def test_one_bad_file_breaks_no_list(client: TestClient, row: dict[str, Any], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    session = ask(client)
    client.post(f"/api/sessions/{session['id']}/save")
    for number, content in enumerate(
        [b"", b"{}", b"[" * 100_000, json.dumps({**row, "question": 7}).encode(), b"\xff" * 100]
    ):
        (saved / f"damaged-{number:06d}.jsonl").write_bytes(content)
    (saved / "a-folder-12345.jsonl").mkdir()
    listed = client.get("/api/sessions").json()["sessions"]
    assert session["id"] in [each["id"] for each in listed]
    for file in saved.iterdir():
        assert client.get(f"/api/sessions/{file.stem}").status_code in (200, 404, 422)


@pytest.mark.long
def test_concurrent_saves_of_one_session_all_succeed(serve: Callable[..., str]) -> None:
    with httpx.Client(base_url=serve(), timeout=TIMEOUT) as client:
        session = ask(client)

    async def save_often(address: str) -> list[int]:
        async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT) as many:
            path = f"/api/sessions/{session['id']}/save"
            return [answer.status_code for answer in await asyncio.gather(*(many.post(path) for _ in range(60)))]

    assert asyncio.run(save_often(str(client.base_url))) == [200] * 60


def test_loads_are_bounded_by_bytes_and_displace_the_large_not_the_small(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(memory=8 << 20))
    small = ask(client)["id"]
    row = file_of(client, {"id": small})
    passage = next(iter(row["passages"].values()))
    large = {**row, "passages": {**row["passages"], "large": {**passage, "text": "x" * 700_000}}}
    loaded = [load(client, large).json()["id"] for _ in range(30)]
    state = client.app.state.shared  # type: ignore[attr-defined]
    assert sum(each.size for each in state.sessions.newest_first()) <= 8 << 20
    assert client.get(f"/api/sessions/{small}").status_code == 200
    assert client.get(f"/api/sessions/{loaded[0]}").status_code == 404
    too_large = {**row, "passages": {**row["passages"], "large": {**passage, "text": "x" * 1_500_000}}}
    assert load(client, too_large).status_code == 422


def test_too_many_sessions_displace_the_one_used_longest_ago_whatever_its_size(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(sessions=3))
    sessions = [ask(client)["id"] for _ in range(3)]
    row = file_of(client, {"id": sessions[0]})
    passage = next(iter(row["passages"].values()))
    large = load(client, {**row, "passages": {**row["passages"], "large": {**passage, "text": "x" * 700_000}}})
    assert client.get(f"/api/sessions/{sessions[1]}").status_code == 404  # the first was used for its file
    small = ask(client)["id"]
    kept = [sessions[0], large.json()["id"], small]
    assert client.get(f"/api/sessions/{sessions[2]}").status_code == 404
    assert [client.get(f"/api/sessions/{id}").status_code for id in kept] == [200, 200, 200]


def test_the_bytes_of_all_sessions_are_counted(client: TestClient) -> None:
    ask(client)
    state = client.app.state.shared  # type: ignore[attr-defined]
    assert state.sessions.bytes_in_memory == sum(each.size for each in state.sessions.newest_first()) > 1000
    assert f"orienteer_session_bytes {float(state.sessions.bytes_in_memory)}" in client.get("/metrics").text


def test_a_refused_ask_displaces_nobody(make_client: MakeClient) -> None:
    reader = GatedReader()
    reader.gate.set()
    client = make_client(reader=reader, limits=Limits(sessions=2, running=1))
    kept = [ask(client)["id"] for _ in range(2)]
    state = client.app.state.shared  # type: ignore[attr-defined]
    state.sessions.running = 1
    for _ in range(5):
        assert client.post("/api/sessions", json={"question": QUESTION}).status_code == 429
        assert client.post("/api/sessions", json={"question": QUESTION, "agent": "nobody"}).status_code == 422
    state.sessions.running = 0
    assert [client.get(f"/api/sessions/{id}").status_code for id in kept] == [200, 200]


@pytest.mark.long
def test_a_branch_during_a_refinement_loses_nothing(serve: Callable[..., str]) -> None:
    """A loaded session is played again by the first who needs it; two at one time take turns or are refused."""
    address = serve()
    with httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        row = file_of(client, ask(client))

    async def race() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT) as client:
            for _ in range(10):
                id = (await client.post("/api/sessions/load", content=json.dumps(row), headers=JSON)).json()["id"]
                refined, _ = await asyncio.gather(
                    client.post(f"/api/sessions/{id}/refine", json={"op": "or", "term": "keeper"}),
                    client.post(f"/api/sessions/{id}/branch", json={"step": 0}),
                )
                steps = (await client.get(f"/api/sessions/{id}")).json()["steps"]
                assert len(steps) == (2 if refined.status_code == 200 else 1)

    asyncio.run(race())


@pytest.mark.long
def test_a_branch_is_refused_while_a_session_is_played_again(serve: Callable[..., str]) -> None:
    """Two that play it again would overwrite each other's steps."""
    reader = GatedReader()
    reader.gate.set()
    address = serve(reader=reader)

    async def both() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT) as client:
            asked = (await client.post("/api/sessions", json={"question": QUESTION, "agent": "bm25"})).json()
            await client.post(f"/api/sessions/{asked['id']}/refine", json={"op": "or", "term": "keeper"})
            line = (await client.get(f"/api/sessions/{asked['id']}/file")).content
            id = (await client.post("/api/sessions/load", content=line, headers=JSON)).json()["id"]
            reader.gate.clear()
            reader.reached.clear()
            body = {"op": "or", "term": "visitors"}
            refining = asyncio.create_task(client.post(f"/api/sessions/{id}/refine", json=body))
            assert await asyncio.to_thread(reader.reached.wait, TIMEOUT)
            branching = asyncio.create_task(client.post(f"/api/sessions/{id}/branch", json={"step": 0}))
            done, _ = await asyncio.wait({refining, branching}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            reader.gate.set()
            assert done == {branching}
            assert branching.result().status_code == 409
            assert len((await refining).json()["steps"]) == 3

    asyncio.run(both())


@pytest.mark.long
def test_a_refinement_that_takes_too_long_changes_nothing(make_client: MakeClient) -> None:
    engine = GatedEngine(1)
    client = make_client(engines={"lighthouses": engine}, limits=Limits(deadline=0.3))
    session = ask(client, steps=0, deadline=100)
    refused = client.post(f"/api/sessions/{session['id']}/refine", json={"op": "or", "term": "keeper"})
    engine.gate.set()
    assert refused.status_code == 429
    assert len(client.get(f"/api/sessions/{session['id']}").json()["steps"]) == 1


@pytest.mark.long
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_the_work_of_a_client_that_has_gone_stops(serve: Callable[..., str], accept: str) -> None:
    engine = GatedEngine(1)
    # A deadline would end the work too.
    address = serve(engines={"lighthouses": engine}, limits=Limits(deadline=2 * TIMEOUT))
    with httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        body = {"question": QUESTION, "agent": "prf-idf-t", "steps": 20}
        with pytest.raises(httpx.TimeoutException):
            client.post("/api/sessions", json=body, headers={"accept": accept}, timeout=2)
        assert engine.reached.wait(TIMEOUT)
        wait_until_running(client, 0)
    engine.gate.set()


class LongReader(LexicalReader):
    """Blocks while it reads a long passage, until `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = threading.Event(), threading.Event()

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        if any(len(passages) > 5 for _, passages in batch):
            self.reached.set()
            assert self.gate.wait(TIMEOUT)
        return super().read_many(batch)


def test_a_step_that_takes_long_does_not_hold_up_the_quick_ones() -> None:
    """Two users read many passages in one step; another one's question is answered meanwhile."""
    reader = LongReader()
    worker = SessionWorker({"lighthouses": ReferenceEngine(PASSAGES)}, reader, 64)

    async def both() -> None:
        job = StepJob("lighthouses", Question("h", "lamp"), Settings(hits=30))
        heavy = [asyncio.create_task(worker.run(job))]
        assert await asyncio.to_thread(reader.reached.wait, TIMEOUT)
        heavy.append(asyncio.create_task(worker.run(job)))
        await asyncio.sleep(0)  # it is queued before the other's
        light = await asyncio.wait_for(worker.run(StepJob("lighthouses", Question("l", QUESTION), Settings())), TIMEOUT)
        assert light.session.steps
        assert not any(each.done() for each in heavy)
        reader.gate.set()
        await asyncio.gather(*heavy)

    asyncio.run(both())
    worker.close()


class SlowAgent:
    """Takes its time once; counts how often it is called from two threads at one time."""

    def __init__(self) -> None:
        self.inside = self.most = 0

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0.4)
        self.inside -= 1
        return [STOP for _ in observations]


def test_an_agent_that_was_slow_goes_to_the_slow_lane_and_acts_once_at_a_time() -> None:
    worker, agent = SessionWorker({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader(), 64), SlowAgent()
    settings = Settings()

    async def play() -> None:
        opened = (await worker.run(StepJob("lighthouses", Question("l", QUESTION), settings))).session
        job = StepJob("lighthouses", opened, settings, agent=agent)
        assert worker._times.lane(job) == "quick"
        await worker.run(job)
        assert worker._times.lane(job) == "slow"
        await asyncio.gather(*(worker.run(job) for _ in range(3)))

    asyncio.run(play())
    worker.close()
    assert agent.most == 1


def test_an_agent_that_reads_much_at_a_step_is_slow_before_its_time_is_known() -> None:
    times, question = StepTimes(), Question("l", QUESTION)
    wide, narrow = (StepJob("lighthouses", question, Settings(hits=n), agent=SlowAgent()) for n in (100, 5))
    assert (times.lane(wide), times.lane(narrow)) == ("slow", "quick")


class GatedAgent:
    """Decides once `gate` is set."""

    def __init__(self) -> None:
        self.gate, self.reached = threading.Event(), threading.Event()

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        self.reached.set()
        assert self.gate.wait(TIMEOUT)
        return [STOP for _ in observations]


def test_a_click_does_not_wait_for_agents_whose_time_is_not_known_yet() -> None:
    """They keep both threads of their lane."""
    worker = SessionWorker({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader(), 64)
    agents = GatedAgent(), GatedAgent()

    async def both() -> None:
        opened = (await worker.run(StepJob("lighthouses", Question("l", QUESTION), Settings()))).session
        acting = []
        for agent in agents:
            acting.append(asyncio.create_task(worker.run(StepJob("lighthouses", opened, Settings(), agent=agent))))
            assert await asyncio.to_thread(agent.reached.wait, TIMEOUT)
        click = StepJob("lighthouses", opened, Settings(), Refinement("or", "contents", "keeper"))
        clicked = await asyncio.wait_for(worker.run(click), TIMEOUT)
        assert len(clicked.session.steps) == 2
        assert not any(each.done() for each in acting)
        for agent in agents:
            agent.gate.set()
        await asyncio.gather(*acting)

    asyncio.run(both())
    worker.close()


def test_a_question_does_not_wait_for_the_step_of_an_agent_that_is_quick() -> None:
    worker, agent = SessionWorker({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader(), 64), GatedAgent()

    async def both() -> None:
        opened = (await worker.run(StepJob("lighthouses", Question("l", QUESTION), Settings()))).session
        job = StepJob("lighthouses", opened, Settings(), agent=agent)
        assert worker._times.lane(job) == "quick"
        acting = asyncio.create_task(worker.run(job))
        assert await asyncio.to_thread(agent.reached.wait, TIMEOUT)
        question = StepJob("lighthouses", Question("q", "lamp"), Settings())
        assert worker._times.lane(question) == "quick"
        asked = await asyncio.wait_for(worker.run(question), TIMEOUT)
        assert asked.session.steps
        assert not acting.done()
        agent.gate.set()
        await acting

    asyncio.run(both())
    worker.close()


def test_a_click_does_not_wait_for_another_users_click() -> None:
    held = GatedEngine(1)
    worker = SessionWorker({"held": held, "lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader(), 64)

    def click(index: str, session: Session) -> StepJob:
        return StepJob(index, session, Settings(), Refinement("or", "contents", "keeper"))

    async def both() -> None:
        heavy, light = [
            (await worker.run(StepJob(index, Question("l", QUESTION), Settings()))).session
            for index in ("held", "lighthouses")
        ]
        waiting = asyncio.create_task(worker.run(click("held", heavy)))
        assert await asyncio.to_thread(held.reached.wait, TIMEOUT)
        clicked = await asyncio.wait_for(worker.run(click("lighthouses", light)), TIMEOUT)
        assert len(clicked.session.steps) == 2
        assert not waiting.done()
        held.gate.set()
        await waiting

    asyncio.run(both())
    worker.close()


def test_the_bytes_of_a_session_grow_with_its_steps_and_notes(client: TestClient, tree_searcher: str) -> None:
    session = ask(client, agent=tree_searcher, steps=0)
    state = client.app.state.shared  # type: ignore[attr-defined]
    sizes = [state.sessions.get(session["id"]).size]
    for _ in range(2):
        client.post(f"/api/sessions/{session['id']}/agent", json={"steps": 1})
        sizes.append(state.sessions.get(session["id"]).size)
    served = state.sessions.get(session["id"])
    assert sizes[0] < sizes[1] < sizes[2]
    assert served.size >= deep_size(served.session) + deep_size(*served.notes) / 2 > deep_size(served.session)


@pytest.mark.long
def test_a_large_session_is_shown_beside_the_event_loop(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is made into a page, others are answered; a small session does not wait for a thread."""
    shown, gate, threads = threading.Event(), threading.Event(), dict[str, str]()

    def slow(served: ServedSession, saved: bool) -> SessionView:
        threads[served.id] = threading.current_thread().name
        if served.id == large:
            shown.set()
            gate.wait(TIMEOUT)
        return session_view(served, saved)

    with httpx.Client(base_url=serve(), timeout=TIMEOUT) as client, ThreadPoolExecutor(1) as another:
        small = ask(client)["id"]
        row = file_of(client, {"id": small})
        passage = next(iter(row["passages"].values()))
        row["passages"]["large"] = {**passage, "text": "x" * 100_000}
        large = load(client, row).json()["id"]
        monkeypatch.setattr(session_routes, "session_view", slow)
        looking = another.submit(httpx.get, f"{client.base_url}api/sessions/{large}", timeout=TIMEOUT)
        assert shown.wait(TIMEOUT)
        assert client.get("/health").status_code == 200
        assert client.get(f"/api/sessions/{small}").status_code == 200
        assert not looking.done()
        gate.set()
        assert looking.result().status_code == 200
    assert threads[large].startswith("asyncio")
    assert not threads[small].startswith("asyncio")


def test_a_session_is_shown_as_it_was_while_it_goes_on(client: TestClient) -> None:
    session = ask(client)
    state = client.app.state.shared  # type: ignore[attr-defined]
    shown = state.sessions.get(session["id"]).snapshot()
    client.post(f"/api/sessions/{session['id']}/refine", json={"op": "or", "term": "keeper"})
    assert len(session_view(shown, False).steps) == 1
    after = client.get(f"/api/sessions/{session['id']}").json()
    assert len(after["steps"]) == 2
    assert after["confidence"] == after["steps"][-1]["confidence"]
