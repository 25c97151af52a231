"""A workbench on a socket: in a thread, or as a program that can be killed.

python serving_world.py PORT SAVED [SECONDS A BATCH]
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
from orienteer.session import STOP, Action, Observation
from orienteer.session.agent import StepNotes, TreeNode, tree_explanation

MakeClient = Callable[..., TestClient]


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


class SlowReader(LexicalReader):
    """Takes its time over every batch, however large, as a model does over a small one."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        time.sleep(self._seconds)
        return super().read_many(batch)


class SlowEngine(ReferenceEngine):
    """Takes its time over every search: a session on it can be watched, stopped and killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(PASSAGES)
        self._seconds = seconds

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[list[Hit]]:
        time.sleep(self._seconds)
        return super().search_many(queries, k)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The app on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
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
def as_program(saved: Path, seconds: float = 0.0, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The same as a process of its own: its address, and what to kill."""
    port = port or free_port()
    process = subprocess.Popen([sys.executable, __file__, str(port), str(saved), str(seconds)])
    try:
        wait_for(f"http://127.0.0.1:{port}/", 120)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for(address: str, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            with urlopen(f"{address}ready", timeout=5):
                return
        except (URLError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def main(port: int, saved: Path, seconds: float) -> None:
    from orienteer.serve import make_app

    app = make_app({"lighthouses": SlowEngine(seconds)}, LexicalReader(), saved, examples=QUESTIONS)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
