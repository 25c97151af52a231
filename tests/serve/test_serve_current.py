"""Servers over indexes that change while they run, and filters in their requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import TIMEOUT, GatedEngine, MakeClient
from small_world import PASSAGES

from orienteer.data.passage import Passage
from orienteer.engine import ReferenceEngine, build_index, open_index, update_index
from orienteer.engine.embedded import build
from orienteer.engine.embedded.current import CurrentEngines
from orienteer.engine.embedded.segmented_engine import SegmentedEngine
from orienteer.engine.embedded.store import read_manifest

NEW = Passage("zeppelin-1", "Zeppelin", "The zeppelin moored at the lighthouse in the storm.", {"year": 1931})
DATED = [replace(passage, metadata={"year": 1900 + number}) for number, passage in enumerate(PASSAGES)]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "not within a minute"
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(DATED, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def engines(folder: Path) -> Iterator[CurrentEngines]:
    followed = CurrentEngines({"lighthouses": open_index(folder, threads=1)}, poll=0.02)
    yield followed
    followed.close()


def found(client: TestClient, query: str, **more: object) -> list[str]:
    answer = client.post("/api/search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


@pytest.mark.parametrize("limit", [0, 1000], ids=["one segment", "a delta"])
def test_a_new_generation_is_served_without_a_restart(
    folder: Path, engines: CurrentEngines, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(build, "delta_limit", lambda passages: limit)
    client = make_client(engines=engines)
    assert found(client, "zeppelin") == []
    update_index(folder, add=[NEW], delete=[DATED[0].id])
    wait_until(lambda: found(client, "zeppelin") == ["zeppelin-1"])
    assert client.get("/api/passage", params={"id": DATED[0].id}).status_code == 404
    asked = client.post("/api/sessions", json={"question": "where was the zeppelin moored", "agent": "bm25+ps"}).json()
    assert "zeppelin-1" in asked["passages"]


def test_a_session_goes_on_in_the_generation_in_which_it_began(
    folder: Path, engines: CurrentEngines, make_client: MakeClient
) -> None:
    client = make_client(engines=engines)
    asked = client.post("/api/sessions", json={"question": "lamp of the keeper", "agent": "bm25+ps"}).json()
    update_index(folder, add=[NEW], delete=[DATED[0].id])
    wait_until(lambda: found(client, "zeppelin") == ["zeppelin-1"])
    refined = client.post(f"/api/sessions/{asked['id']}/refine", json={"op": "+", "term": "zeppelin"})
    assert refined.status_code == 200, refined.text
    assert refined.json()["steps"][-1]["hits"] == []


def test_a_damaged_generation_is_not_served(folder: Path, engines: CurrentEngines) -> None:
    before = engines["lighthouses"]
    (folder / "manifest.json").write_text("{}")
    time.sleep(0.1)
    assert engines["lighthouses"] is before


def test_a_search_shows_passages_of_the_generation_that_it_searched(make_client: MakeClient) -> None:
    """A new generation comes between its search and its passages, and lacks them."""
    old = GatedEngine(0)
    engines = CurrentEngines({"lighthouses": old})
    client = make_client(engines=engines)
    with ThreadPoolExecutor(1) as another:
        searching = another.submit(found, client, "lamp keeper")
        assert old.reached.wait(TIMEOUT)
        engines.add("lighthouses", ReferenceEngine([NEW]))
        old.gate.set()
        hits = searching.result()
    assert hits
    assert NEW.id not in hits


def test_a_filter_narrows_a_search_and_a_session(make_client: MakeClient, folder: Path) -> None:
    client = make_client(engines={"lighthouses": open_index(folder, threads=1)})
    late = {passage.id for passage in DATED[4:]}
    everything, narrowed = (found(client, "lamp keeper", k=50, where=where) for where in ("", "year>=1904"))
    assert narrowed == [id for id in everything if id in late]
    assert 0 < len(narrowed) < len(everything)
    asked = client.post("/api/sessions", json={"question": "lamp keeper", "agent": "prf-answer", "where": "year>=1904"})
    assert set(asked.json()["passages"]) <= late
    wrong = client.post("/api/search", json={"query": "lamp", "where": "year>="})
    assert (wrong.status_code, wrong.json()["kind"]) == (422, "FilterError")
    assert client.post("/api/search", json={"query": "lamp", "where": "colour=red"}).status_code == 422


@pytest.mark.long
def test_the_tool_server_takes_filters_and_follows_its_index(folder: Path, engines: CurrentEngines) -> None:
    import asyncio

    from mcp.client.client import Client

    from orienteer.serve.mcp import make_server

    async def ask() -> None:
        server = make_server(engines, LexicalReader(), agent="prf-answer")
        async with Client(server) as client:
            narrowed = await client.call_tool("search", {"query": "lamp", "k": 50, "where": "year>=1904"})
            ids = {each["untrusted_id"] for each in narrowed.structured_content["passages"]}
            assert ids <= {passage.id for passage in DATED[4:]}
            researched = await client.call_tool("research", {"question": "lamp", "steps": 1, "where": "year>=1904"})
            assert {each["untrusted_id"] for each in researched.structured_content["passages"]} <= {
                p.id for p in DATED[4:]
            }
            assert (await client.call_tool("research", {"question": "lamp", "where": "year>"})).is_error
            older = engines["lighthouses"]
            update_index(folder, add=[NEW])
            while engines["lighthouses"] is older:
                await asyncio.sleep(0.01)
            searched = await client.call_tool("search", {"query": "zeppelin"})
            assert [each["untrusted_id"] for each in searched.structured_content["passages"]] == ["zeppelin-1"]

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_delta_that_has_grown_is_merged_in_the_background_once_nothing_changes(
    folder: Path, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "delta_limit", lambda passages: 4)
    engines = CurrentEngines({"lighthouses": open_index(folder, threads=1)}, poll=0.02, quiet=0.1)
    try:
        client = make_client(engines=engines)
        update_index(folder, add=[NEW])
        wait_until(lambda: found(client, "zeppelin") == ["zeppelin-1"])
        wait_until(lambda: read_manifest(folder).base is None)
        wait_until(lambda: not isinstance(engines["lighthouses"], SegmentedEngine))
        assert found(client, "zeppelin") == ["zeppelin-1"]
    finally:
        engines.close()


def test_a_small_delta_and_a_folder_that_may_not_be_written_are_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "delta_limit", lambda passages: 100)
    update_index(folder, add=[NEW])
    merged: list[Path] = []
    engines = CurrentEngines({"lighthouses": open_index(folder)}, poll=0.01, quiet=0.0, merge=merged.append)
    wait_until(lambda: engines._looked_at["lighthouses"])
    engines.close()
    assert merged == []
    monkeypatch.setattr(build, "delta_limit", lambda passages: 4)
    monkeypatch.setattr("orienteer.engine.embedded.current.os.access", lambda folder, mode: False)
    engines = CurrentEngines({"lighthouses": open_index(folder)}, poll=0.01, quiet=0.0, merge=merged.append)
    wait_until(lambda: engines._looked_at["lighthouses"])
    engines.close()
    assert merged == []
