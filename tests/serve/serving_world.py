"""A workbench on a socket: in a thread, or as a program that can be killed.

python serving_world.py PORT SAVED [SECONDS A BATCH]
"""

from __future__ import annotations

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

from orienteer.data.passage import Passage
from orienteer.engine import Hit, ReferenceEngine
from orienteer.query import Query
from orienteer.reader.protocol import Reading

MakeClient = Callable[..., TestClient]


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
