"""What commands share: where they print, and how."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from orienteer.errors import OrienteerError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def plain(text: str) -> str:
    """Text as it is: no markup, and no control character that a terminal would obey."""
    return escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def print_json(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


@contextmanager
def compiling() -> Iterator[None]:
    """Say so when kernels are about to be compiled: once after an installation, some seconds."""
    from orienteer.engine.warmup import is_warm

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
