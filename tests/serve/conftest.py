"""The session room's small world behind a workbench: in this process, on a socket, and in a browser."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))
sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))
sys.path.insert(0, str(Path(__file__).parent.parent / "agents" / "muzero"))
sys.path.insert(0, str(Path(__file__).parent))

from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import TREE_SEARCHER, MakeClient, Registered, listening
from small_world import PASSAGES, QUESTIONS

from orienteer.agents import registry
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.serve import make_app

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# A browser that calls nobody but the page's own host.
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = tmp_path_factory.mktemp("lighthouses") / "index"
    build_index(PASSAGES, folder)
    return open_index(folder, threads=1)


@pytest.fixture
def tree_searcher(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an agent that tells of a search tree."""
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, TREE_SEARCHER))
    return TREE_SEARCHER.names


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    """Registers an agent from outside for one test; gives its name."""
    monkeypatch.setattr(registry, "_REGISTERED", {})

    def register(make: Callable[[Any], Any]) -> str:
        registry.register_agent("from-outside", make, about="registered by a test")
        return "from-outside"

    return register


@pytest.fixture
def make_client(engine: EmbeddedEngine, tmp_path: Path) -> Iterator[MakeClient]:
    """A workbench in this process, with whatever differs from the usual."""
    with ExitStack() as open_clients:

        def make(**options: Any) -> TestClient:
            options = {
                "engines": {"lighthouses": engine}, "reader": LexicalReader(), "saved": tmp_path / "saved",
                "examples": QUESTIONS, **options,
            }  # fmt: skip
            client = TestClient(make_app(**options), base_url="http://127.0.0.1", raise_server_exceptions=False)
            return open_clients.enter_context(client)

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    return make_client()


@pytest.fixture
def serve(engine: EmbeddedEngine, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A workbench on a free port of loopback; gives its address."""
    with ExitStack() as servers:

        def start(**options: Any) -> str:
            options = {
                "engines": {"lighthouses": engine}, "reader": LexicalReader(), "saved": tmp_path / "saved",
                "examples": QUESTIONS, **options,
            }  # fmt: skip
            return servers.enter_context(listening(make_app(**options)))

        yield start


# Of a module, no more: while Playwright runs, no test of another one could run an event loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()
