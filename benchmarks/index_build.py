"""Time to build an index of the same passages: ours from the files, Lucene's from rows already parsed.

Ours reads, decompresses and parses its input and flushes to the disk; Lucene is given parsed rows and is charged
only for indexing, merging to one segment and closing. Both use two threads, and one.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lucene_bench import lucene_index, write_records
from orienteer.data import read_passages
from orienteer.engine import build_index


def run(passages: list[Path], lucene_jar: Path | None, as_json: bool) -> None:
    report: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        for threads in (2, 1):
            report[f"orienteer_{threads}_threads_s"] = _build(passages, folder / "ours", threads)
        report["peak_resident_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        report["orienteer_bytes"] = sum(file.stat().st_size for file in (folder / "ours").rglob("*.npy"))
        if lucene_jar is not None:
            rows = write_records(read_passages(passages), folder / "rows")
            for threads in (2, 1):
                timing = lucene_index(lucene_jar, rows, folder / "lucene", threads)
                report[f"lucene_{threads}_threads_s"] = timing.wall_seconds
                report["lucene_bytes"] = timing.bytes
                report[f"of_lucene_{threads}_threads"] = report[f"orienteer_{threads}_threads_s"] / timing.wall_seconds
                shutil.rmtree(folder / "lucene")
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
        return
    table = Table("measure", "value", box=None, title="index build")
    for key, value in report.items():
        table.add_row(key, f"{value:,.4g}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)


def _build(passages: list[Path], out: Path, threads: int) -> float:
    started = time.perf_counter()
    build_index(read_passages(passages), out, threads=threads)
    return time.perf_counter() - started
