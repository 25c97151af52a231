"""The tool server, called by the official client: in memory, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lexical_reader import LexicalReader
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from serving_world import TIMEOUT, GatedReader, free_port, listening
from small_world import PASSAGES
from tiny import save_tiny

from orienteer import __version__
from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, ReferenceEngine, build_index, open_index
from orienteer.serve import Limits
from orienteer.serve.mcp import WARNING, http_app, make_server

T = TypeVar("T")
TOOLS = ["describe_collection", "fetch_document", "research", "search"]
QUESTION = "who lit the first lamp on the reef"
PROGRAM = """
import sys
sys.path[:0] = {path!r}
from lexical_reader import LexicalReader
from small_world import PASSAGES
from orienteer.engine import ReferenceEngine
from orienteer.serve.mcp import run
run({{"lighthouses": ReferenceEngine(PASSAGES)}}, LexicalReader())
"""


def in_time(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work(), TIMEOUT)

    return asyncio.run(bounded())


async def call_both(client: Client) -> tuple[list[str], Any, Any]:
    tools = [tool.name for tool in (await client.list_tools()).tools]
    searched = await client.call_tool("search", {"query": 'lamp -(title:"ardle")', "k": 3})
    researched = await client.call_tool("research", {"question": QUESTION, "steps": 3, "trail": True})
    return tools, searched, researched


def check_both(tools: list[str], searched: Any, researched: Any) -> None:
    assert sorted(tools) == TOOLS
    assert not searched.is_error
    assert not researched.is_error
    assert len(searched.structured_content["passages"]) == 3
    result = researched.structured_content
    assert result["untrusted_answer"]
    assert len(result["passages"]) == 5
    assert [step["number"] for step in result["steps"]] == [0, 1, 2, 3]
    assert result["steps"][0]["untrusted_action"] == "question"
    queries = [step for step in result["steps"] if step["untrusted_action"] != "undo"]
    assert result["queries"] == len(queries)


@pytest.mark.long
def test_a_client_in_memory_lists_and_calls_both_tools(engine: EmbeddedEngine) -> None:
    server = make_server({"lighthouses": engine}, LexicalReader())

    async def work() -> tuple[list[str], Any, Any]:
        async with Client(server) as client:
            return await call_both(client)

    check_both(*in_time(work))


@pytest.mark.long
def test_a_client_over_stdio_lists_and_calls_both_tools(tmp_path: Path) -> None:
    path = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "session")]
    program = tmp_path / "server.py"
    program.write_text(PROGRAM.format(path=path))

    async def work() -> tuple[list[str], Any, Any]:
        started = StdioServerParameters(command=sys.executable, args=[str(program)])
        async with Client(stdio_client(started)) as client:
            return await call_both(client)

    check_both(*in_time(work))


@pytest.mark.long
def test_the_command_serves_an_index_over_stdio_and_writes_nothing_else_there(tmp_path: Path) -> None:
    build_index(PASSAGES, tmp_path / "index")
    arguments = ["mcp", "--index", str(tmp_path / "index"), "--reader", str(save_tiny(tmp_path / "reader"))]
    program = str(Path(sys.executable).with_name("orienteer"))

    async def work() -> tuple[list[str], Any, Any]:
        async with Client(stdio_client(StdioServerParameters(command=program, args=arguments))) as client:
            return await call_both(client)

    tools, searched, researched = in_time(work)
    assert sorted(tools) == TOOLS
    assert len(searched.structured_content["passages"]) == 3
    assert len(researched.structured_content["passages"]) == 5


@pytest.mark.long
def test_a_client_over_streamable_http_lists_and_calls_both_tools() -> None:
    server = make_server({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader())
    app = _WithReady(http_app(server, "127.0.0.1"))
    with listening(app) as address:

        async def work() -> tuple[list[str], Any, Any]:
            async with Client(f"{address}mcp") as client:
                return await call_both(client)

        check_both(*in_time(work))


def test_over_http_a_token_is_asked_for() -> None:
    import httpx

    server = make_server({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader())
    with listening(_WithReady(http_app(server, "0.0.0.0", "correct-horse-battery"))) as address:
        assert httpx.post(f"{address}mcp", json={}, timeout=TIMEOUT).status_code == 401
        assert free_port()


@pytest.mark.long
def test_results_are_compact_unless_more_is_asked_for(tmp_path: Path) -> None:
    long = [
        Passage(f"p{i}", "Ardle", f"The lamp of the reef. {'word ' * 400} lit by Maren Holt {i}.", {"file": "a.txt"})
        for i in range(8)
    ]
    build_index(long, tmp_path / "index")
    server = make_server({"lights": open_index(tmp_path / "index", threads=1)}, LexicalReader())

    async def work() -> list[Any]:
        async with Client(server) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("research", {"question": QUESTION}), ("search", {"query": "lamp"}),
                ("research", {"question": QUESTION, "trail": True, "whole": True}),
                ("fetch_document", {"id": "p3", "around": 1}), ("describe_collection", {}),
                ("fetch_document", {"id": "none"}),
            ]  # fmt: skip
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    short, found, whole, document, described, missing = in_time(work)
    for each in (short, found):
        assert len(json.dumps(each.structured_content)) < 4096
        assert len(each.structured_content["passages"]) == 5
    result = short.structured_content
    assert result["steps"] is None
    assert 0 <= result["probability_right"] <= 1
    assert result["verdict"]
    assert len(whole.structured_content["passages"][0]["untrusted_text"]) > 2000
    assert whole.structured_content["steps"]
    assert [each["untrusted_id"] for each in document.structured_content["passages"]] == ["p2", "p3", "p4"]
    assert document.structured_content["passages"][1]["untrusted_text"] == long[3].text
    assert described.structured_content["passages"] == 8
    assert described.structured_content["version"] == __version__
    assert described.structured_content["untrusted_titles"] == ["Ardle"]
    assert missing.is_error


@pytest.mark.long
def test_passages_are_marked_as_untrusted(engine: EmbeddedEngine) -> None:
    server = make_server({"lighthouses": engine}, LexicalReader())

    async def work() -> tuple[list[str], Any, Any]:
        async with Client(server) as client:
            assert WARNING in (client.instructions or "")
            return await call_both(client)

    _, searched, researched = in_time(work)
    for result in (searched.structured_content, researched.structured_content):
        assert result["warning"] == WARNING
        for passage in result["passages"]:
            assert not passage.keys() & {"id", "title", "text", "source", "answer"}
            assert passage["untrusted_text"]
            assert passage["untrusted_id"]
    for step in researched.structured_content["steps"]:
        assert not step.keys() & {"action", "query", "entered", "left"}  # words and ids of passages
    assert WARNING in searched.content[0].text


@pytest.mark.long
def test_more_research_than_allowed_is_told_to_come_back() -> None:
    reader = GatedReader()
    server = make_server({"lighthouses": ReferenceEngine(PASSAGES)}, reader, limits=Limits(running=1))

    async def work() -> list[Any]:
        async with Client(server) as client:
            tasks = [asyncio.create_task(client.call_tool("research", {"question": QUESTION})) for _ in range(2)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # the gate is shut: only a refusal comes
            reader.gate.set()
            return await asyncio.gather(*tasks)

    results = sorted(in_time(work), key=lambda result: bool(result.is_error))
    assert [result.is_error for result in results] == [False, True]
    assert "1 agents are at work" in results[1].content[0].text


def test_sessions_over_http_end_when_nobody_uses_them_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server({"lighthouses": ReferenceEngine(PASSAGES)}, LexicalReader())
    options: dict[str, Any] = {}
    monkeypatch.setattr(server, "streamable_http_app", lambda **given: options.update(given))
    http_app(server, "127.0.0.1")
    assert 0 < options["session_idle_timeout"] <= 3600
    assert 0 < options["max_sessions"] <= 10_000


@pytest.mark.long
@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("search", {"query": '"open'}, "open quote"),
        ("search", {"query": "lamp", "index": "moon"}, "expected one of lighthouses"),
        ("search", {"query": "lamp", "k": 0}, "greater than or equal to 1"),
        ("research", {"question": "lamp " * 1100}, "2000"),
        ("research", {"question": QUESTION, "steps": 500}, "50"),
    ],
)
def test_a_mistake_is_told_to_the_model(engine: EmbeddedEngine, tool: str, arguments: Any, why: str) -> None:
    server = make_server({"lighthouses": engine}, LexicalReader())

    async def work() -> Any:
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    result = in_time(work)
    assert result.is_error
    assert why in result.content[0].text


class _WithReady:
    """Answers /ready, for which the tests wait; everything else is the app's."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/ready":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ready"})
            return
        await self._app(scope, receive, send)
