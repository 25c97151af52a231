"""Lucene timed inside its own JVM: the peer of the speed benchmarks, and the source of golden files.

Needs a JDK and a jar that holds Lucene 8, 9 or 10 (core, analysis-common, queryparser); nothing of JPype.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.adapters.lucene import LuceneError, class_path
from orienteer.engine.protocol import Hit
from orienteer.query import Query

_SOURCE = Path(__file__).parent / "java" / "LuceneBench.java"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True, slots=True)
class IndexTiming:
    """What an index cost; `thread_cpu_seconds` is the whole work only with one thread."""

    lucene: str
    passages: int
    threads: int
    wall_seconds: float
    thread_cpu_seconds: float
    process_cpu_seconds: float  # with the compiler's and the garbage collector's threads
    bytes: int


@dataclass(frozen=True, slots=True)
class TimedHits:
    """A query's hits and its microseconds of thread CPU time, means over the repeats."""

    query: str
    hits: list[Hit]
    cpu_us: float = 0.0  # parse + search + fetch
    least_cpu_us: float = 0.0
    parse_us: float = 0.0
    search_us: float = 0.0
    fetch_us: float = 0.0
    wall_us: float = 0.0  # by the clock on the wall
    error: str | None = None


def lucene_index(jar: str | Path, passages: Iterable[Passage] | Path, out: str | Path, threads: int = 1) -> IndexTiming:
    """Build an index of one segment in `out`; a path is a file that `write_records` wrote.

    With one thread passages keep their order; with more, Lucene deals them out as it likes and ties follow.
    """
    with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
        if not isinstance(passages, Path):
            passages = write_records(passages, Path(folder) / "records")
        return IndexTiming(**_run(jar, "index", passages, Path(out), threads)[0])


def lucene_version(jar: str | Path) -> str:
    """The version of the Lucene in the jar, asked of itself."""
    with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
        return lucene_index(jar, [Passage("1", "title", "text")], Path(folder) / "index").lucene


def lucene_search(
    jar: str | Path,
    index: str | Path,
    queries: Sequence[Query | str] | Path,
    k: int,
    repeats: int = 5,
    warmup: int = 3,
) -> list[TimedHits]:
    """The top k of every query by one thread, query cache off; a path is a file of one query a line.

    All queries run `warmup` times untimed, then `repeats` times timed, always in their order.
    """
    with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
        file = queries if isinstance(queries, Path) else _write(map(str, queries), Path(folder) / "queries")
        rows = _run(jar, "search", Path(index), file, k, max(1, repeats), max(0, warmup))
    return [TimedHits(**row | {"hits": [_hit(*hit) for hit in row["hits"]]}) for row in rows]


def _hit(passage_id: str, score: float) -> Hit:
    """Java prints the shortest decimal of a float32; read it as that float32."""
    return Hit(passage_id, float(np.float32(score)))


def lucene_analyze(jar: str | Path, texts: Sequence[str]) -> list[list[str | None]]:
    """The index terms of each text by Lucene's StandardAnalyzer; None where a stop word was removed."""
    with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
        return _run(jar, "analyze", _write(texts, Path(folder) / "texts"))


@dataclass(frozen=True, slots=True)
class LikeThese:
    """What Lucene's MoreLikeThis makes of some texts: its query's terms, and the ids of the first k passages."""

    lucene: str
    terms: list[str]
    ids: list[str]


def lucene_more_like_this(
    jar: str | Path, index: str | Path, sets: Iterable[tuple[Sequence[str], int]]
) -> list[LikeThese]:
    """MoreLikeThis with Lucene's defaults, of each (texts, k); `jar` holds lucene-queries too."""
    with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
        file = Path(folder) / "sets"
        with file.open("w", encoding="utf-8", newline="\n") as out:
            for texts, k in sets:
                out.write("\t".join([str(k), *(text.translate(_ESCAPES) for text in texts)]) + "\n")
        return [LikeThese(**row) for row in _run(jar, "like", Path(index), file)]


def write_records(passages: Iterable[Passage], file: Path) -> Path:
    """The passages as `LuceneBench index` reads them, so that no JSON is parsed on Lucene's clock."""
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for passage in passages:
            columns = (passage.id, passage.title, passage.text)
            out.write("\t".join(column.translate(_ESCAPES) for column in columns) + "\n")
    return file


def _write(lines: Iterable[str], file: Path) -> Path:
    text = "".join(line.translate(_ESCAPES) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8", newline="\n")
    return file


def _run(jar: str | Path, *arguments: object) -> list[Any]:
    java = shutil.which("java")
    if java is None:
        raise LuceneError("no `java` on the PATH; install a JDK, version 11 or later")
    # The launcher compiles a lone source file in memory: there are no class files to keep in step with it.
    command = [java, "-cp", os.pathsep.join(class_path(jar)), str(_SOURCE), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if "error: compilation failed" in done.stderr:
        raise LuceneError(
            f"no Lucene in {jar}: LuceneBench does not compile with it; expected a jar with Lucene 8, 9 or "
            f"10, or lucene-core, lucene-analysis-common and lucene-queryparser joined as a class path:\n"
            f"{_tail(done.stderr)}"
        )
    if done.returncode != 0:
        raise LuceneError(f"LuceneBench {arguments[0]} ended with {done.returncode}:\n{_tail(done.stderr)}")
    return [json.loads(line) for line in _lines(done.stdout)]


def _lines(text: str) -> Iterator[str]:
    """Lines by newline only: a JSON string may hold what Python calls other line ends."""
    return (line for line in text.split("\n") if line)


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
