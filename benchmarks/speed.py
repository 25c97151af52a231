"""What the engine costs beside its peers of today: one run, one JSON file, one table in docs/performance.md.

Rows are measured one after another, so that none disturbs another; each peer works on the same passages and the same
questions in the same run. A row whose peer is not installed is left out, and the report says so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

import plain_search
import refinements
import steps
from lucene_bench import lucene_version
from orienteer.data import Passage, read_questions
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.engine.sharded.engine import open_shards
from orienteer.query import Query
from peers import all_passages, lucene_folder

K = 5
SHARDS = 4
RUNS = 5  # of a whole command
ALTERED = 0.1  # the share of words that differ in a passage that is there again
SEED = 31
QUESTION = "who first isolated sodium metal"
STEPS, TOGETHER = 12, 64  # of an agent's session, sessions of a batch
PARTS = ("search", "refine", "shards", "steps", "disk", "start", "bm25s", "growth")

MARK = "<!-- speed: written by `orienteer bench all` -->"
DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"

err = Console(stderr=True, highlight=False)


def run(
    index: Path, questions: Path, lucene_jar: Path | None, limit: int, parts: Sequence[str], sizes: Sequence[int],
    out: Path,
) -> None:  # fmt: skip
    """Measures `parts`, adds them to what `out` has already, and writes the table anew."""
    report: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    report["command"] = f"orienteer bench all --parts {','.join(parts)}"
    report["machine"] = machine()
    report["versions"] = versions(lucene_jar)
    rows: dict[str, Callable[[], object]] = {
        "search": lambda: plain_search.measure(index, questions, lucene_jar, limit, tantivy=True),
        "refine": lambda: refinements.measure(index, questions, lucene_jar, False, max(1, limit // 7)),
        "shards": lambda: shards(index, questions, limit),
        "steps": lambda: agent_steps(index, questions, max(1, limit // 50)),
        "disk": lambda: disk(index, lucene_jar),
        "start": lambda: start(index),
        "bm25s": lambda: bm25s(index, questions, limit),
        "growth": lambda: growth(index, questions, limit, sizes),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    for part in parts:
        err.print(f"{part} …")
        load = os.getloadavg()[0]
        if (measured := rows[part]()) is not None:
            report[part] = {"load_before": load, "measured_at": _now(), **measured}  # type: ignore[dict-item]
            out.write_text(json.dumps(report, indent=1) + "\n")
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), table(report)))


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    caches = {
        (Path(folder) / "level").read_text().strip() + _kind(Path(folder)): (Path(folder) / "size").read_text().strip()
        for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    }
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": model, "processors": os.cpu_count(), "caches": caches, "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release(), "python": platform.python_version(),
    }  # fmt: skip


def _kind(folder: Path) -> str:
    return {"Instruction": "i", "Data": "d"}.get((folder / "type").read_text().strip(), "")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def versions(lucene_jar: Path | None) -> dict[str, str]:
    found = {name: _version(name) for name in ("numpy", "numba", "tantivy", "bm25s")}
    if lucene_jar is not None:
        found["lucene"] = lucene_version(lucene_jar)
    return {name: version for name, version in found.items() if version}


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def shards(index: Path, questions: Path, limit: int) -> dict[str, object]:
    """Four shards in this process over one index of the same passages, as CPU time."""
    one = open_index(index, threads=1)
    queries = _queries(questions, limit)
    states = [
        state for query in queries[: max(1, limit // 28)]
        for state in refinements.states_of(one, query.question, random.Random(SEED)) if state.kind == "idf"
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=index.parent) as folder:
        paths = [Path(folder) / str(number) for number in range(SHARDS)]
        cuts = [len(one) * number // SHARDS for number in range(SHARDS + 1)]
        for path, low, high in zip(paths, cuts, cuts[1:], strict=False):
            build_index((one.index.passage(number) for number in range(low, high)), path)
        many = open_shards(paths)
        searched = {name: _searching(engine, queries) for name, engine in (("one", one), ("shards", many))}
        refined = {name: _refining(engine, states) for name, engine in (("one", one), ("shards", many))}
        same = sum(list(one.search(query, K)) == list(many.search(query, K)) for query in queries)
        many.close()
    return {
        "shards": SHARDS, "search_us": searched, "search_of_one": searched["shards"] / searched["one"],
        "refine_us": refined, "refine_of_one": refined["shards"] / refined["one"], "same_results": same,
        "questions": len(queries),
    }  # fmt: skip


def _searching(engine: Any, queries: list[Query]) -> float:
    return least(lambda: engine.search_many(queries, K)) / len(queries) * 1e6


def _refining(engine: Any, states: list[refinements.State]) -> float:
    seconds = least(lambda: [engine.refine(state.query, state.candidates, K) for state in states])
    return seconds / sum(len(state.candidates) for state in states) * 1e6


def least(work: Callable[[], object]) -> float:
    """CPU seconds of this process, the least of a few rounds after a first one."""
    seconds = []
    for _ in range(4):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds[1:])


def agent_steps(index: Path, questions: Path, limit: int) -> dict[str, object]:
    """What a step of the pointer costs beside search and reading, as CPU time; a stand-in reads."""
    engine, reader = open_index(index, threads=1), steps.StandIn()
    asked = [question for question, _ in zip(read_questions(questions), range(TOGETHER), strict=False)]
    rows = [
        steps.measure(engine, reader, "pointer", asked[:count], STEPS, together)
        for count, together in ((limit, 1), (TOGETHER, TOGETHER))
    ]
    return {
        name: {"ms": row["processor ms"], "steps": row["steps"], "wordpieces": row["wordpieces"]}
        for name, row in zip(("alone", "together"), rows, strict=True)
    }


def disk(index: Path, lucene_jar: Path | None) -> dict[str, object]:
    engine = open_index(index, threads=1)
    found: dict[str, object] = {"passages": len(engine), "orienteer_bytes": _bytes(index, "*.npy")}
    if lucene_jar is not None:
        found["lucene_bytes"] = _bytes(lucene_folder(index, engine, lucene_jar), "*")
    return found


def _bytes(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.rglob(pattern) if file.is_file())


def start(index: Path) -> dict[str, float]:
    """CPU seconds of processes of their own: the median of a few."""
    return {
        "python_s": _process(["-c", "pass"]),
        "import_s": _process(["-c", "import orienteer"]),
        "help_s": _process(["-m", "orienteer.cli", "--help"]),
        "search_s": _process(["-m", "orienteer.cli", "search", str(index), QUESTION]),
    }


def _process(arguments: list[str]) -> float:
    # With byte code kept beside the source, as an installed package has it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    once()
    return median(once() for _ in range(RUNS))


def bm25s(index: Path, questions: Path, limit: int) -> dict[str, float] | None:
    """bm25s by its own tokens and its own scores: plain search only, its results are not Lucene's."""
    if importlib.util.find_spec("bm25s") is None:
        err.print("bm25s is not installed: left out (pip install bm25s)")
        return None
    import bm25s as peer

    engine = open_index(index, threads=1)
    texts = [passage.contents for passage in all_passages(engine)]
    retriever = peer.BM25(method="lucene")
    retriever.index(peer.tokenize(texts, show_progress=False), show_progress=False)
    asked = [query.question for query in _queries(questions, limit)]

    def ask() -> None:
        for text in asked:
            tokens = peer.tokenize(text, show_progress=False, return_ids=False)
            retriever.retrieve(tokens, k=K, show_progress=False, n_threads=1)

    return {"bm25s_us": least(ask) / len(asked) * 1e6}


def growth(index: Path, questions: Path, limit: int, sizes: Sequence[int]) -> dict[str, object]:
    """Search, refine and disk by the number of passages; beyond the index's own, its passages with other words."""
    engine = open_index(index, threads=1)
    rows: dict[str, object] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=index.parent) as folder:
            path = Path(folder) / "index"
            build_index(some_passages(engine, size), path)
            plain = plain_search.measure(path, questions, None, limit, tantivy=False)
            refined = refinements.measure(path, questions, None, False, max(1, limit // 14))
            rows[str(size)] = {
                "search_us": plain["orienteer_us"], "refine_us": refined["refine_us"]["all"],  # type: ignore[index]
                "bytes": _bytes(path, "*.npy"),
            }  # fmt: skip
    return rows


def some_passages(engine: EmbeddedEngine, size: int) -> Iterator[Passage]:
    """The first `size` passages; where there are fewer, again and again, a tenth of their words by others' words."""
    rng = random.Random(SEED)
    words: list[str] = []
    for number in range(size):
        passage = engine.index.passage(number % len(engine))
        if number < len(engine):
            words += rng.sample(split, min(len(split), 3)) if (split := passage.text.split()) else []
            yield Passage(passage.id, passage.title, passage.text)
        else:
            altered = [rng.choice(words) if rng.random() < ALTERED else word for word in passage.text.split()]
            yield Passage(f"{passage.id}-{number // len(engine)}", passage.title, " ".join(altered))


def _queries(questions: Path, limit: int) -> list[Query]:
    return [Query(question.question) for question, _ in zip(read_questions(questions), range(limit), strict=False)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="minutes")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(report: dict[str, Any]) -> str:
    """The report as Markdown: ours, the peer, the ratio."""
    rows: list[tuple[str, str, str, str]] = []

    def add(name: str, own: float, unit: str, peers: dict[str, float | None] | None = None) -> None:
        known = {peer: value for peer, value in (peers or {}).items() if value is not None}
        beside = ", ".join(f"{peer} {_short(value)}" for peer, value in known.items())
        ratios = ", ".join(f"{_short(value / own)}" for value in known.values())
        rows.append((name, f"{_short(own)} {unit}", beside or "–", ratios or "–"))

    lucene = f"Lucene {report['versions'].get('lucene', '')}".strip()
    if found := report.get("search"):
        peers = {lucene: found.get("lucene_us"), "tantivy": found.get("tantivy_us")}
        peers["bm25s (its own scores)"] = report.get("bm25s", {}).get("bm25s_us")
        add(f"a plain question, {found['passages']:,} passages", found["orienteer_us"], "µs", peers)
        add("two threads, questions a second of one", found["speed_up_of_two_threads"], "×")
    if found := report.get("refine"):
        add("a refinement", found["refine_us"]["all"], "µs", {lucene: found.get("lucene_us")})
        add("two threads, refinements a second of one", 1 / found["two_threads_of_one"], "×")
    if found := report.get("shards"):
        add("four shards in one process, search, of one index", found["search_of_one"], "×")
        add("the same, refine", found["refine_of_one"], "×")
    if found := report.get("steps"):
        add(f"a step of `pointer`, the mean of {STEPS}, one session at a time", found["alone"]["ms"], "ms")
        add(f"the same, {TOGETHER} sessions in a batch", found["together"]["ms"], "ms")
    if found := report.get("disk"):
        peers = {lucene: found["lucene_bytes"] / 1e9} if "lucene_bytes" in found else {}
        add("disk", found["orienteer_bytes"] / 1e9, "GB", peers)
    if found := report.get("start"):
        add("`import orienteer`", found["import_s"], "s", {"`python -c pass`": found["python_s"]})
        add("`orienteer search`, the whole command", found["search_s"], "s")
    for size, found in report.get("growth", {}).items():
        if size.isdecimal():
            add(f"{int(size):,} passages: a plain question", found["search_us"], "µs")
            add(f"{int(size):,} passages: a refinement", found["refine_us"], "µs")
    own = report["machine"]
    caches = ", ".join(f"L{name} {size}" for name, size in own["caches"].items())
    lines = [
        f"Measured on {own['processor']}, {own['processors']} cores ({caches}), {own['memory_gb']} GB, "
        f"Python {own['python']}. CPU time.",
        "", "| what | Orienteer | peer | peer ÷ Orienteer |", "|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]  # fmt: skip
    return "\n".join(lines)


def with_table(document: str, text: str) -> str:
    """The document with the table between its two marks."""
    pattern = re.compile(f"{re.escape(MARK)}.*?{re.escape(MARK)}", re.DOTALL)
    return pattern.sub(lambda _: f"{MARK}\n\n{text}\n\n{MARK}", document)
