"""What commands share: where they print, and how."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape

from orienteer.errors import OrienteerError

# No emoji: a title with ":cat:" in it is shown as it is.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


# DEL, the control characters of eight bits, line separators, and marks that turn the direction of text.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LOGGED = 60.0  # seconds between lines of progress in a log


class ProgressLike(Protocol):
    """As `workers.Progress`."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def seconds_left(self) -> float | None: ...


class Show(Protocol):
    def __call__(self, state: ProgressLike, doing: str = "", /) -> None: ...


@contextmanager
def progress(what: str) -> Iterator[Show]:
    """A bar with the time left, of so many `what`; in a log, where there is no bar, a line a minute."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None, left="")
        printed = monotonic()

        def show(state: ProgressLike, doing: str = "", /) -> None:
            nonlocal printed
            left = "" if state.seconds_left is None else f"{state.seconds_left / 60:.0f} min left"
            bar.update(task, description=doing or what, completed=state.done, total=state.total, left=left)
            if not err.is_terminal and monotonic() - printed >= _LOGGED:
                printed = monotonic()
                parts = (f"{state.done:,} of {state.total:,} {what}", doing, left)
                err.print(", ".join(part for part in parts if part), soft_wrap=True, markup=False)

        yield show


def printable(text: str) -> str:
    """Text without any control character that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def plain(text: str) -> str:
    """The same where markup is read: nothing in it is any."""
    return escape(printable(text))


def print_json(row: dict[str, Any]) -> None:
    write_json(json.dumps(row, ensure_ascii=False))


def write_json(line: str) -> None:
    """Writes a line of JSON; what a terminal would obey, and JSON leaves as it is, becomes an escape of JSON's."""
    sys.stdout.write(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line.rstrip("\n")) + "\n")


@contextmanager
def compiling() -> Iterator[None]:
    """Say so when kernels are about to be compiled: once after an installation, some seconds."""
    from orienteer.engine.embedded.warmup import is_warm

    if not is_warm() and err.is_terminal:
        err.print("[dim]compiling the engine for this machine, once (about half a minute) …[/]")
    yield


def benchmark(name: str) -> Any:
    """A module of the source tree's `benchmarks` folder, which is not part of the installed package."""
    folder = Path(__file__).parents[3] / "benchmarks"
    if not (folder / f"{name}.py").is_file():
        raise OrienteerError(f"the benchmark {name!r} is not here; run it from a checkout of the project")
    sys.path.insert(0, str(folder))
    return import_module(name)
