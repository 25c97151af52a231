"""What a person waits for: whole commands from the shell, alone and answered by a running server, first and warm.

Wall time is what is felt; CPU time is beside it, since wall time on a busy machine says little. By a server it is that
of the command and what the server spends meanwhile.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from orienteer.commands.resident import SWITCH, find_server

QUESTION = "who first isolated sodium metal"

# An installed package has its bytecode: a variable that forbids to keep it would have every command compile it.
_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Seconds(NamedTuple):
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Felt:
    """Seconds: the medians of the warm runs, and the first one; None where not measured.

    installed    the first run after an installation, with no compiled kernel
    first_asked  the first of these commands that a server answers after its start
    """

    command: str
    alone: Seconds
    installed: Seconds | None
    served: Seconds | None
    first_asked: Seconds | None


def run(index: Path, runs: int, cold: bool, out: Path | None) -> None:
    rows = measure(index, runs, cold)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        report = [{key: value._asdict() if isinstance(value, Seconds) else value for key, value in row.items()}
                  for row in map(asdict, rows)]  # fmt: skip
        out.write_text(json.dumps(report, indent=1) + "\n")
    table = Table("seconds: wall, CPU", "alone", "just installed", "by a server", "its first", box=None)
    for row in rows:
        cells = (row.alone, row.installed, row.served, row.first_asked)
        table.add_row(row.command, *("" if each is None else f"{each.wall:.2f}  {each.cpu:.2f}" for each in cells))
    Console().print(table)


def measure(index: Path, runs: int, cold: bool) -> list[Felt]:
    commands = [
        ["--help"],
        ["search", str(index), QUESTION],
        *(["ask", QUESTION, "--index", str(index), "--steps", str(steps)] for steps in (0, 5, 20)),
    ]
    alone = [_warm(command, runs, {SWITCH: "0"}) for command in commands]
    installed = [_installed(command) if cold and len(command) > 1 else None for command in commands]
    first: list[Seconds | None] = [None] * len(commands)
    served = list(first)
    for place in range(1, len(commands)):
        with _server(index) as server:
            first[place] = _seconds(commands[place], {}, server)
            served[place] = _warm(commands[place], runs, {}, server)
    return [Felt(_name(command), *row) for command, *row in zip(commands, alone, installed, served, first, strict=True)]


def _name(command: list[str]) -> str:
    return " ".join(part for part in command if "/" not in part and part not in ("--index", QUESTION))


def _installed(command: list[str]) -> Seconds:
    with tempfile.TemporaryDirectory() as empty:
        return _seconds(command, {"NUMBA_CACHE_DIR": empty, SWITCH: "0"})


def _warm(command: list[str], runs: int, environment: dict[str, str], server: int | None = None) -> Seconds:
    _seconds(command, environment, server)  # the kernels and the files are there from now on
    every = [_seconds(command, environment, server) for _ in range(runs)]
    return Seconds(median(each.wall for each in every), median(each.cpu for each in every))


def _seconds(command: list[str], environment: dict[str, str], server: int | None = None) -> Seconds:
    """Of one command in a process of its own, and of the server with this process id."""
    before, started = _cpu(server), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "orienteer.cli", *command],
        env=_INSTALLED | environment, check=True, capture_output=True,
    )  # fmt: skip
    return Seconds(round(time.perf_counter() - started, 3), round(_cpu(server) - before, 3))


def _cpu(server: int | None) -> float:
    """CPU seconds so far of the commands that ended, and of the server."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    if server is not None:
        fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
    return used.ru_utime + used.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _server(index: Path) -> Iterator[int]:
    """The process id of `orienteer serve`, just started; ended afterwards."""
    if find_server(index) is not None:
        raise SystemExit(f"a server of {index} runs already: end it first")
    command = [sys.executable, "-m", "orienteer.cli", "serve", "--index", str(index), "--port", "0", "--no-uploads"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while find_server(index) is None:
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
