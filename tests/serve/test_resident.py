"""A server that runs answers for the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from orienteer.commands.resident import ServerError, find_server, offered
from orienteer.data.passage import Passage
from orienteer.engine import build_index

pytest.importorskip("uvicorn")

QUESTION = ["who", "lit", "the", "first", "lamp"]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="resident-") as short:  # the path of a Unix socket has at most 107 bytes
        folder = Path(short).resolve()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        monkeypatch.delenv("ORIENTEER_RESIDENT", raising=False)
        yield folder


@pytest.fixture
def index(runtime: Path) -> Path:
    build_index(
        [
            Passage("a", "Ardle Light", "Its keeper Maren Holt lit the first lamp in 1871."),
            Passage("b", "Brisk Point", "Tomas Reed built the tower."),
        ],
        runtime / "index",
    )
    return runtime / "index"


def test_nobody_listens_where_no_server_runs(runtime: Path) -> None:
    assert find_server(runtime / "index") is None


def test_a_server_is_found_by_the_path_of_its_index_and_gone_afterwards(runtime: Path) -> None:
    (runtime / "index").mkdir()
    (runtime / "link").symlink_to(runtime / "index")
    with offered({"one": str(runtime / "index"), "bundled": None}) as listeners:
        assert len(listeners) == 2
        for address in (runtime / "index", runtime / "link"):
            found = find_server(address)
            assert found is not None
            assert found.index == "one"
        assert find_server(runtime / "other") is None
        with offered({"second": str(runtime / "index")}) as more:
            assert more == []  # the first keeps its place
    assert find_server(runtime / "index") is None


def test_the_socket_of_a_killed_server_is_taken_over(runtime: Path) -> None:
    with offered({"one": None}) as [listener]:
        path = Path(listener.getsockname())
        listener.close()
        assert path.exists()
        assert find_server(None) is None
        with offered({"two": None}):
            found = find_server(None)
            assert found is not None
            assert found.index == "two"


def test_a_folder_whose_path_is_too_long_for_a_socket_is_not_used(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / ("long" * 30)))
    with offered({"one": None}) as listeners:
        assert listeners == []
    assert find_server(None) is None


def test_it_can_be_turned_off(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with offered({"one": None}):
        monkeypatch.setenv("ORIENTEER_RESIDENT", "0")
        assert find_server(None) is None
        with offered({"two": None}) as listeners:
            assert listeners == []


def test_a_folder_that_others_can_enter_is_not_used(runtime: Path) -> None:
    folder = runtime / "run" / "orienteer"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with offered({"one": None}) as listeners:
        assert listeners == []


def test_a_server_that_breaks_off_is_a_server_error(runtime: Path) -> None:
    with offered({"one": None}) as [listener]:
        found = find_server(None)
        assert found is not None
        listener.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ServerError):
            found.request("GET", "/health")


def run(*arguments: str, resident: str = "1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orienteer.cli", *arguments],
        env=os.environ | {"ORIENTEER_RESIDENT": resident}, capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.fixture
def server(index: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-m", "orienteer.cli", "serve", "--index", str(index), "--port", "0"],
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            assert "the workbench" in process.stderr.readline()
            # It listens on its sockets from before it says where it is.
            deadline = time.monotonic() + 120
            while find_server(index) is None:
                assert process.poll() is None
                assert time.monotonic() < deadline, "no socket after two minutes"
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.long
@pytest.mark.usefixtures("server")
def test_ask_and_search_say_the_same_by_a_server_and_by_themselves(index: Path) -> None:
    ask = ["ask", *QUESTION, "--index", str(index), "--steps", "1", "--json"]
    served, own = (json.loads(run(*ask, resident=each).stdout) for each in "10")
    for step in served["steps"]:
        step.pop("notes", None)  # a server asks the agent for its reasons too
    for name in ("answer", "steps", "passages", "confidence", "reader", "index", "question"):
        assert served.get(name) == own.get(name)
    search = ["search", str(index), "lamp +title:ardle"]
    for more in ([], ["--json"]):
        served_text, own_text = (run(*search, *more, resident=each).stdout for each in "10")
        assert served_text == own_text
    assert "by the server that runs" in run("ask", *QUESTION, "--index", str(index), "--steps", "1").stdout
