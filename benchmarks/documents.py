"""A folder with a file of every format, and broken, encrypted, empty and huge ones: found, named, memory.

    python benchmarks/documents.py [--megabytes 200] [--out results/documents/documents.json]

The folder is made by `tests/data/make_documents.py`. Each readable file has a question that only it answers. Memory is
that of `orienteer index` without the huge text, with it, and with one of twice the size: the process's own, and its
resident set, which also counts pages of the files that it writes, as far as the kernel has not taken them back.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "data"))

from make_documents import FACTS, LAST_OF_LARGE, UNREADABLE, make_documents

from orienteer.engine import open_index
from orienteer.query import Query


def measure(megabytes: int) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for name, size in (("without the large text", 0), ("with it", megabytes), ("twice as large", 2 * megabytes)):
        with tempfile.TemporaryDirectory() as scratch:
            folder, index = Path(scratch) / "documents", Path(scratch) / "index"
            make_documents(folder, megabytes=size)
            report[name] = _indexed(folder, index, size)
    return report


def _indexed(folder: Path, index: Path, megabytes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "orienteer.cli", "index", str(folder), "--out", str(index), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    watch = _OwnMemory(process.pid)
    told = json.loads(process.stdout.read())
    watch.stop()
    _, status, used = os.wait4(process.pid, 0)
    engine = open_index(index)

    def first_file(question: str) -> object:
        hits = engine.search(Query(question), 1)
        return engine.passages([hits[0].id])[0].metadata["file"] if len(hits) else None

    expected = {question: file for file, (question, _) in FACTS.items()}
    if megabytes:
        expected[LAST_OF_LARGE] = "large.txt"
    reasons = {each["file"]: each["reason"] for each in told["unreadable"]}
    return {
        "megabytes": round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1),
        "passages": told["passages"], "exit_status": os.waitstatus_to_exitcode(status),
        "readable": len(expected), "found_first": sum(first_file(q) == file for q, file in expected.items()),
        "unreadable": len(UNREADABLE),
        "named_with_its_reason": sum(reason in reasons.get(file, "") for file, reason in UNREADABLE.items()),
        "named_besides": len(reasons.keys() - UNREADABLE.keys()),
        "peak_own_memory_mb": round(watch.peak / 1024), "peak_resident_mb": round(used.ru_maxrss / 1024),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
    }  # fmt: skip


class _OwnMemory:
    """Looks a hundred times a second how much memory a process has that is no page of a file: `peak`, in KiB."""

    def __init__(self, pid: int) -> None:
        self.peak, self._pid, self._stopped = 0, pid, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._stopped.wait(0.01):
            status = Path(f"/proc/{self._pid}/status").read_text()
            if found := re.search(r"RssAnon:\s+(\d+)", status):
                self.peak = max(self.peak, int(found[1]))

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="a folder of every format")
    parser.add_argument("--megabytes", type=int, default=200, help="of the huge text")
    parser.add_argument("--out", type=Path, help="file of the results")
    given = parser.parse_args()
    text = json.dumps(measure(given.megabytes), indent=1)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
