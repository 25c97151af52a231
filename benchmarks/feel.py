"""What a person waits for: whole commands from the shell, the first one after an installation and warm ones.

Wall time is what is felt; CPU time of the process is beside it, since wall time on a busy machine says little.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

QUESTION = "who first isolated sodium metal"


@dataclass(frozen=True, slots=True)
class Felt:
    """Seconds: the median of the warm runs, and of the first run with no compiled kernel; None where not measured."""

    command: str
    wall: float
    cpu: float
    cold_wall: float | None
    cold_cpu: float | None


def run(index: Path, runs: int, cold: bool, as_json: bool) -> None:
    rows = measure(index, runs, cold)
    if as_json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows]) + "\n")
        return
    table = Table("command", "warm, s", "CPU", "first, s", "CPU", box=None)
    for row in rows:
        numbers = (row.wall, row.cpu, row.cold_wall, row.cold_cpu)
        table.add_row(row.command, *("" if number is None else f"{number:.2f}" for number in numbers))
    Console().print(table)


def measure(index: Path, runs: int, cold: bool) -> list[Felt]:
    commands = [
        ["--help"],
        ["search", str(index), QUESTION],
        *(["ask", QUESTION, "--index", str(index), "--steps", str(steps)] for steps in (0, 5, 20)),
    ]
    return [_felt(command, runs, cold and len(command) > 1) for command in commands]


def _felt(command: list[str], runs: int, cold: bool) -> Felt:
    first: tuple[float | None, float | None] = (None, None)
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            first = _seconds(command, {"NUMBA_CACHE_DIR": empty})
    _seconds(command, {})  # the kernels and the files are there from now on
    warm = [_seconds(command, {}) for _ in range(runs)]
    name = " ".join(part for part in command if "/" not in part and part not in ("--index", QUESTION))
    return Felt(name, median(wall for wall, _ in warm), median(cpu for _, cpu in warm), *first)


def _seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of one command in a process of its own."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "orienteer.cli", *command],
        env=os.environ | environment, check=True, capture_output=True,
    )  # fmt: skip
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
