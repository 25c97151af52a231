"""What grows with the passages, and what workers gain: index, search, refine, reading, Rocchio.

The files of passages are parts of one size; an index is built of the first 1, 2, 4 and 8 of them and asked the same
questions. Costs are CPU seconds of one thread, so that another program's load falls out of them, mostly. Workers are
timed by the wall, from the first chunk's start to the last one's end, on the smallest index; shards by both.
`scale_model.py` makes the tables of docs/scale.md from what is written here.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from orienteer.data import Question, read_passages, read_questions
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.engine.embedded.segments import SegmentHits, merged
from orienteer.engine.sharded.engine import open_shards
from orienteer.errors import OrienteerError
from orienteer.query import Query
from orienteer.reader import CachedReader, TrainedReader
from orienteer.reader.evaluate import bm25_passages
from orienteer.rocchio import RocchioConfig, rocchio_sessions, variants_of
from orienteer.workers import run_chunks
from refinements import candidates_of, states_of
from scale_model import tables

K = 5
SEED = 13
ROUNDS = 2  # of the workers, of which the least counts: another program's load falls on one of them

err = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked: questions that are searched, refined, read and put through Rocchio."""

    search: int = 1000
    refine: int = 40
    read: int = 20
    rocchio: int = 8


def run(
    passages: Sequence[Path], questions: Path, work: Path, sizes: Sequence[int], workers: Sequence[int], load: Load,
    reader: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Measures into `work`/scale.json and prints tables; an index that is there already is not built again."""
    if max(sizes) > len(passages):
        raise OrienteerError(f"a size of {max(sizes)} files; only {len(passages)} files of passages are named")
    asked = list(islice(read_questions(questions), load.search))
    work.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"processors": os.cpu_count(), "load": asdict(load), "sizes": [], "workers": []}

    def note(row: dict[str, float]) -> None:
        err.print(json.dumps(row), soft_wrap=True)
        (work / "scale.json").write_text(json.dumps(report, indent=1) + "\n")

    for size in sizes:
        built = _built(passages[:size], work / f"index-{size}")
        report["sizes"].append(built | _costs(work / f"index-{size}", asked, load, reader))
        note(report["sizes"][-1])
    whole = max((size for size in sizes if size <= 4), default=sizes[0])
    if whole > 1:
        parts = [work / "index-1" if n == 0 and 1 in sizes else work / f"part-{n}" for n in range(whole)]
        for n, part in enumerate(parts):
            _built(passages[n : n + 1], part)
        report["shards"] = _shards(work / f"index-{whole}", parts, asked, load)
        note(report["shards"])
    best: dict[int, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for count in workers:
            row = _crew(work / f"index-{sizes[0]}", asked, load, reader, count)
            best[count] = {name: min(value, best.get(count, row)[name]) for name, value in row.items()}
    for count in workers:
        report["workers"].append({"workers": count} | best[count])
        note(report["workers"][-1])
    show(work, as_json)


def show(work: Path, as_json: bool) -> None:
    """What was measured into `work`, as tables in Markdown or as JSON."""
    try:
        report = json.loads((work / "scale.json").read_text())
    except OSError:
        raise OrienteerError(f"no scale.json in {work}; measure first, without --table") from None
    sys.stdout.write(json.dumps(report) + "\n" if as_json else tables(report))


# What one index costs.


def _built(files: Sequence[Path], out: Path) -> dict[str, float]:
    """Builds in a process of its own, so that the peak of memory is the build's."""
    notes = out.with_name(f"{out.name}.build.json")
    if not notes.is_file():
        process = multiprocessing.get_context("spawn").Process(target=_build, args=(list(files), out, notes))
        process.start()
        process.join()
        if process.exitcode:
            raise OrienteerError(f"building {out} ended with exit code {process.exitcode}")
    costs: dict[str, float] = json.loads(notes.read_text())
    return costs


def _build(files: list[Path], out: Path, notes: Path) -> None:
    build_index([], out.with_name("empty"), threads=1)  # kernels are loaded
    peak = _Peak()
    started = time.process_time()
    manifest = build_index(read_passages(files), out, threads=1)
    seconds = time.process_time() - started
    sizes = {name: entry["bytes"] for name, entry in manifest.files.items()}
    row = {
        "passages": manifest.counts["passages"],
        "build_cpu_s": seconds,
        "build_own_gb": peak.gigabytes(),
        "build_resident_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "disk_gb": sum(sizes.values()) / 1e9,
        "lists_gb": sum(size for name, size in sizes.items() if name != "text.npy") / 1e9,
    }
    notes.write_text(json.dumps(row))


class _Peak(threading.Thread):
    """The most memory of its own that the process had: pages of mapped files, which can go, are not counted."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._kilobytes, self._over = 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.05):
            status = Path("/proc/self/status").read_text()
            self._kilobytes = max(self._kilobytes, int(status.split("RssAnon:")[1].split()[0]))

    def gigabytes(self) -> float:
        self._over.set()
        return self._kilobytes / 1e6


def _costs(index: Path, asked: list[Question], load: Load, reader: Path | None) -> dict[str, float]:
    """In a process of its own, so that its memory is this index's."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(theirs, index, asked, load, reader))
    process.start()
    theirs.close()
    try:
        costs: dict[str, float] = ours.recv()
    except EOFError:
        raise OrienteerError(f"measuring {index} ended with an error") from None
    process.join()
    return costs


def _measure(answer: Any, index: Path, asked: list[Question], load: Load, folder: Path | None) -> None:
    engine = open_index(index, threads=1)
    reader = TrainedReader.from_pretrained(folder, threads=1)
    queries = [Query(question.question) for question in asked]
    states = _some_states(engine, asked[: load.refine])
    pairs = bm25_passages(engine, asked[: load.read], K)
    row = {
        "search_us": _cpu(lambda: _search_each(engine, queries), 2) / len(queries) * 1e6,
        "refine_us": _cpu(lambda: [engine.refine(*state, K) for state in states], 2)
        / sum(len(candidates) for _, candidates in states)
        * 1e6,
        "read_ms": _cpu(lambda: reader.read_many(pairs), 1) / sum(len(found) for _, found in pairs) * 1e3,
    }
    answer.send(row | _rocchio(engine, reader, asked[: load.rocchio]) | _memory())


def _rocchio(engine: EmbeddedEngine, reader: TrainedReader, asked: list[Question]) -> dict[str, float]:
    """CPU seconds a question, and how much of them the engine and the reader took."""
    timed = _Timed(engine), _Timed(reader)
    cached = CachedReader(timed[1])
    started = time.process_time()
    found = rocchio_sessions(timed[0], cached, asked, variants_of("G4"), RocchioConfig())
    seconds = time.process_time() - started
    row = {
        "rocchio_s": seconds, "rocchio_engine_s": timed[0].seconds, "rocchio_reader_s": timed[1].seconds,
        "rocchio_read": cached.misses, "rocchio_steps": sum(len(own.steps) for sessions in found for own in sessions),
    }  # fmt: skip
    return {name: value / len(asked) for name, value in row.items()}


class _Timed:
    """An engine or reader that counts the CPU seconds of its calls."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.seconds = inner, 0.0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            started = time.process_time()
            try:
                return value(*arguments, **options)
            finally:
                self.seconds += time.process_time() - started

        return call


def _some_states(engine: EmbeddedEngine, asked: Sequence[Question]) -> list[tuple[Query, list[Any]]]:
    """Questions after 0, 2 and 5 refinements, each with some 1,490 candidates, as in `bench refinements`."""
    rng = random.Random(SEED)
    return [
        (state.query, state.candidates)
        for question in asked
        for state in states_of(engine, question.question, rng)
        if state.kind == "idf"
    ]


def _search_each(engine: Any, queries: Sequence[Query]) -> None:
    for query in queries:
        list(engine.search(query, K))


def _cpu(work: Callable[[], object], warm: int) -> float:
    """CPU seconds of this process; the least of three rounds where it was warmed up."""
    for _ in range(min(1, warm)):
        work()
    rounds = []
    for _ in range(1 + warm):
        started = time.process_time()
        work()
        rounds.append(time.process_time() - started)
    return min(rounds)


def _memory() -> dict[str, float]:
    """Of this process: what is its own, and what it shares with whoever maps the same index."""
    kilobytes = {"Private_Clean": 0, "Private_Dirty": 0, "Rss": 0}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in kilobytes:
            kilobytes[name] += int(rest.split()[0])
    return {"own_gb": kilobytes["Private_Dirty"] / 1e6, "resident_gb": kilobytes["Rss"] / 1e6}


# Shards.


def _shards(whole: Path, parts: Sequence[Path], asked: list[Question], load: Load) -> dict[str, float]:
    """Microseconds a query or refinement on the same passages, whole and in parts.

    CPU time is that of this process, which for shards in processes of their own is what asking and merging costs.
    """
    one = open_index(whole, threads=1)
    queries = [Query(question.question) for question in asked]
    states = _some_states(one, asked[: load.refine])
    refinements = sum(len(candidates) for _, candidates in states)
    row: dict[str, float] = {"shards": len(parts)}
    for name, engine in (
        ("whole", one),
        ("parts", open_shards(parts)),
        ("processes", open_shards(parts, processes=True)),
    ):
        for kind, count, work in (
            ("search", len(queries), lambda engine=engine: _search_each(engine, queries)),
            ("search_many", len(queries), lambda engine=engine: engine.search_many(queries, K)),
            ("refine", refinements, lambda engine=engine: [engine.refine(*state, K) for state in states]),
        ):
            work()
            started, wall = time.process_time(), time.perf_counter()
            work()
            row[f"{name}_{kind}_cpu_us"] = (time.process_time() - started) / count * 1e6
            row[f"{name}_{kind}_wall_us"] = (time.perf_counter() - wall) / count * 1e6
    for count in (len(parts), 77):
        row[f"merge_{count}_us"] = _merging(count)
    return row


def _merging(shards: int, lists: int = 1490) -> float:
    """Microseconds a result list to make one of the lists of so many shards, of full lists with scores at random."""
    draw = np.random.default_rng(SEED)
    found = [
        SegmentHits(draw.integers(0, 1 << 20, (lists, K)), np.sort(draw.random((lists, K), np.float32))[:, ::-1])
        for _ in range(shards)
    ]
    starts = np.arange(shards + 1) << 20
    return _cpu(lambda: merged(found, starts, K), 2) / lists * 1e6


# Workers.


@dataclass(frozen=True, slots=True)
class Done:
    """A chunk's start and end by the wall, its CPU seconds, and the memory of the worker that did it."""

    start: float
    end: float
    cpu: float
    own_gb: float


@dataclass(frozen=True, slots=True)
class Stint:
    """The work of a worker: one kind of it on a few questions; tells its seconds, by the wall and of CPU time."""

    index: Path
    reader: Path | None

    def __call__(self) -> Callable[[tuple[str, list[Question]]], Done]:
        engine, reader = open_index(self.index, threads=1), TrainedReader.from_pretrained(self.reader, threads=1)
        reader.read_many(bm25_passages(engine, [Question("warm", "who wrote it")], K))

        def work(chunk: tuple[str, list[Question]]) -> Done:
            kind, asked = chunk
            started, spent = time.time(), time.process_time()
            if kind == "search":
                for _ in range(5):
                    _search_each(engine, [Query(question.question) for question in asked])
            elif kind == "refine":
                for question in asked:
                    query = Query(question.question)
                    engine.refine(query, candidates_of(engine, query), K)
            elif kind == "read":
                reader.read_many(bm25_passages(engine, asked, K))
            else:
                rocchio_sessions(engine, CachedReader(reader), asked, variants_of("G4"), RocchioConfig())
            return Done(started, time.time(), time.process_time() - spent, _memory()["own_gb"])

        return work


def _crew(index: Path, asked: list[Question], load: Load, reader: Path | None, count: int) -> dict[str, float]:
    """Seconds of each kind of work, cut into chunks for `count` worker processes.

    CPU seconds are those of all workers: where they grow with the count, workers are in each other's way.
    """
    row: dict[str, float] = {}
    amounts = {"search": load.search, "refine": 5 * load.refine, "read": 5 * load.read, "rocchio": load.rocchio}
    for kind, amount in amounts.items():
        step = max(1, amount // 24)
        chunks = [(kind, asked[at : at + step]) for at in range(0, amount, step)]
        began = time.time()
        found = [result for _, result in run_chunks(Stint(index, reader), chunks, workers=count)]
        first = min(done.start for done in found)
        row[f"{kind}_wall_s"] = max(done.end for done in found) - first
        row[f"{kind}_cpu_s"] = sum(done.cpu for done in found)
        row[f"{kind}_opening_s"] = first - began
        row["own_gb"] = max(done.own_gb for done in found)
    return row
