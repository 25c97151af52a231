"""`bench scale`: what grows with the passages and with the workers, on the command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from orienteer.errors import OrienteerError


def bench_scale(
    passages: Annotated[
        list[Path] | None, typer.Argument(help="files of passages, parts of one size", show_default=False)
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="file of questions with answers", show_default=False)] = None,
    *,
    work: Annotated[Path, typer.Option("--out", help="folder for indexes and scale.json; built ones are kept")],
    sizes: Annotated[str, typer.Option(help="files in each index")] = "1,2,4,8",
    workers: Annotated[str, typer.Option(help="worker processes to try")] = "1,2,4",
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    search: Annotated[int, typer.Option(help="questions to search", min=24)] = 1000,
    refine: Annotated[int, typer.Option(help="questions to refine", min=1)] = 40,
    read: Annotated[int, typer.Option(help="questions whose passages are read", min=1)] = 20,
    rocchio: Annotated[int, typer.Option(help="questions to search Rocchio sessions for", min=1)] = 8,
    table: Annotated[bool, typer.Option("--table", help="print what is in --out already, measure nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Cost of index, search, refine, reading and Rocchio by the number of passages and of workers.

    Some ten minutes on two quiet processors. Tables are in Markdown; docs/scale.md has them.

    orienteer bench scale passages-*.jsonl.xz --questions dev.jsonl.xz --out scale
    """
    folder = Path(__file__).parents[3] / "benchmarks"
    if not (folder / "scale.py").is_file():
        raise OrienteerError("the benchmark 'scale' is not here; run it from a checkout of the project")
    sys.path.insert(0, str(folder))
    scale = import_module("scale")
    if table:
        scale.show(work, as_json)
        return
    if not passages or questions is None:
        raise OrienteerError("nothing to measure with; name files of passages and --questions, or see --table")
    counts = {name: _numbers(name, text) for name, text in (("--sizes", sizes), ("--workers", workers))}
    load = scale.Load(search, refine, read, rocchio)
    scale.run(passages, questions, work, counts["--sizes"], counts["--workers"], load, reader, as_json)


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise OrienteerError(f"{option} {text!r}; expected numbers of 1 or more with commas between, such as 1,2,4")
    return numbers
