"""What one new file costs a large index while it is searched: `sync`, `sync --watch`, and the commit of 100 passages.

    python benchmarks/sync.py INDEX [--rounds 5] [--out results/sync/sync.json]

INDEX is changed: give it a copy. A thread searches the newest generation all the time, as a server does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from orienteer.data.passage import Passage
from orienteer.engine import open_index, update_index
from orienteer.engine.embedded.current import CurrentEngines
from orienteer.engine.embedded.folder_sync import sync_folder, watch_folder
from orienteer.engine.embedded.store import read_manifest
from orienteer.query import Query

QUESTIONS = ["who wrote the first history of the glaciers", "longest river of the north", "when was the zeppelin built"]


def measure(index: Path, rounds: int) -> dict[str, Any]:
    run = f"{time.time_ns():x}"
    engines = CurrentEngines({"index": open_index(index, threads=1)})
    done, errors, stop = [0], [], threading.Event()

    def search() -> None:
        while not stop.is_set():
            engine = engines["index"]
            try:
                hits = engine.search(Query(QUESTIONS[done[0] % len(QUESTIONS)]), 5)
                engine.passages([hit.id for hit in hits])
                done[0] += 1
            except Exception as error:
                errors.append(repr(error))

    searching = threading.Thread(target=search)
    searching.start()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "first.txt").write_text(f"The first file of run {run}.\n")
        first = sync_folder(folder, index)
        for number in range(rounds):
            word = f"glimmer{run}x{number}"
            Path(folder, f"new{number}.txt").write_text(f"The {word} is kept on a shelf of the harbour office.\n")
            started, cpu = time.perf_counter(), time.process_time()
            sync_folder(folder, index)
            synced, used = time.perf_counter() - started, time.process_time() - cpu
            while not len(engines["index"].search(Query(word), 1)):
                time.sleep(0.01)
            rows.append({"sync_s": synced, "process_cpu_s": used, "served_s": time.perf_counter() - started})
        watched = _watch(Path(folder), index, engines, run, rounds)
        added = []
        for number in range(rounds):
            new = [
                Passage(f"{run}-{number}-{each}", "", f"passage {each} of glaciers and rivers") for each in range(100)
            ]
            started = time.perf_counter()
            update_index(index, add=new)
            added.append(time.perf_counter() - started)
    stop.set()
    searching.join()
    manifest = read_manifest(index)
    return {
        "passages": manifest.passages, "delta": manifest.counts["passages"] if manifest.base is not None else 0,
        "first_sync_s": round(first.seconds, 2), "one_file": [{k: round(v, 2) for k, v in row.items()} for row in rows],
        "watch": [{k: round(v, 2) for k, v in row.items()} for row in watched],
        "add_100_passages_s": [round(seconds, 2) for seconds in added],
        "searches_meanwhile": done[0], "errors": errors, "load_average": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def _watch(folder: Path, index: Path, engines: CurrentEngines, run: str, rounds: int) -> list[dict[str, float]]:
    """Seconds from writing a file until `watch_folder` has committed it, and until a server finds it."""
    stop, commits = threading.Event(), threading.Semaphore(0)

    def follow() -> None:
        for _ in watch_folder(folder, index, stop=stop.is_set):
            commits.release()

    watching = threading.Thread(target=follow)
    watching.start()
    commits.acquire()  # the first look
    rows = []
    for number in range(rounds):
        word = f"gleam{run}x{number}"
        Path(folder, f"watched{number}.txt").write_text(f"The {word} is kept on a shelf of the harbour office.\n")
        started = time.perf_counter()
        commits.acquire()
        committed = time.perf_counter() - started
        while not len(engines["index"].search(Query(word), 1)):
            time.sleep(0.01)
        rows.append({"committed_s": committed, "served_s": time.perf_counter() - started})
    stop.set()
    watching.join()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="what one new file costs a large index")
    parser.add_argument("index", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="file of the results")
    given = parser.parse_args()
    text = json.dumps(measure(given.index, given.rounds), indent=1)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
