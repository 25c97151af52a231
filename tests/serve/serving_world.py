"""A workbench on a socket: in a thread, or as a program that can be killed.

python serving_world.py PORT SAVED REFINEMENTS
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))

import uvicorn
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

from orienteer.agents import AgentSpec, ConfiguredAgent
from orienteer.data.passage import Passage
from orienteer.engine import Hit, ReferenceEngine
from orienteer.query import Query, Refinement
from orienteer.reader.protocol import Reading
from orienteer.serve.http_server import ConnectionLimits, http_server
from orienteer.serve.http_server import listening as listen
from orienteer.session import STOP, Action, Observation
from orienteer.session.agent import StepNotes, TreeNode, tree_explanation

MakeClient = Callable[..., TestClient]
Registered = Callable[[Callable[[Any], Any]], str]
TIMEOUT = 300.0  # seconds; only a test that hangs waits so long


class TreeSearcher:
    """Requires the rarest word that it may, and tells of a search that it never made: what a tree agent must do."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_explanations(observations)]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, StepNotes | None]]:
        return [self._act(observation) for observation in observations]

    def _act(self, observation: Observation) -> tuple[Action, StepNotes | None]:
        terms = sorted(observation.terms, key=lambda term: -term.idf)[:40]
        if not terms:
            return STOP, None
        first, *others = (Refinement("+", "contents", term.text) for term in terms)
        below = tuple(TreeNode(str(each), 3, 0.5, 0.1) for each in others[:2])
        children = (
            TreeNode(str(first), 31, 0.625, 0.4, below, taken=True),
            *(TreeNode(str(each), int(n == 0), 0.25, 0.01) for n, each in enumerate(others)),
        )
        return first, tree_explanation(TreeNode("the query", 32, 0.6, None, children))


TREE_SEARCHER = AgentSpec(
    "tree-searcher", "tells of a tree", "nothing", re.compile("tree-searcher"),
    lambda request: ConfiguredAgent(request.name, TreeSearcher(), request.settings), ("tree-searcher",),
)  # fmt: skip


class GatedReader(LexicalReader):
    """Reads nothing before `gate` is set; `reached` is set when it is asked to, `calls` counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = threading.Event(), threading.Event()
        self.calls = 0

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self.calls += 1
        self.reached.set()
        self.gate.wait(TIMEOUT)
        return super().read_many(batch)


class GatedEngine(ReferenceEngine):
    """Holds searches with so many refinements, or more, until `gate` is set; `reached` is set when one comes.

    A session on it can be watched, stopped and killed at a known step, however fast or slow the machine is.
    """

    def __init__(self, refinements: int) -> None:
        super().__init__(PASSAGES)
        self._refinements = refinements
        self.reached, self.gate = threading.Event(), threading.Event()

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[list[Hit]]:
        if any(len(query.refinements) >= self._refinements for query in queries):
            self.reached.set()
            self.gate.wait(TIMEOUT)
        return super().search_many(queries, k)


@contextmanager
def listening(app: Any, limits: ConnectionLimits | None = None) -> Iterator[str]:
    """The app on a free port, as the commands serve it; its address."""
    with listen("127.0.0.1", 0) as listener:
        server = http_server(app, limits)
        server.config.timeout_graceful_shutdown = 1
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        wait_for(address)
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(timeout=20)


@contextmanager
def as_program(saved: Path, refinements: int = 100, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server as a process of its own, with a `GatedEngine` whose gate stays shut: its address, and what to kill."""
    port = port or free_port()
    process = subprocess.Popen([sys.executable, __file__, str(port), str(saved), str(refinements)])
    try:
        wait_for(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for(address: str) -> None:
    def ready() -> bool:
        try:
            with urlopen(f"{address}ready", timeout=TIMEOUT):
                return True
        except (URLError, OSError):
            return False

    wait_until(ready)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, "what the test waits for does not come"
        time.sleep(0.02)


def wait_until_running(client: Any, sessions: int) -> None:
    """Until so many agents are at work; each has then queued its next step."""
    wait_until(lambda: f"orienteer_sessions_running {sessions}.0" in client.get("/metrics").text)


def main(port: int, saved: Path, refinements: int) -> None:
    from orienteer.serve import make_app

    app = make_app({"lighthouses": GatedEngine(refinements)}, LexicalReader(), saved, examples=QUESTIONS)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
