"""Plain top-5 questions a second, one thread: the embedded engine, tantivy from Python, Lucene inside the JVM."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lucene_bench import lucene_search
from orienteer.data import read_questions
from orienteer.engine import open_index
from orienteer.query import Query
from peers import lucene_folder, tantivy_engine

K = 5
ROUNDS = 3


def run(index: Path, questions: Path, lucene_jar: Path | None, limit: int, as_json: bool) -> None:
    report = measure(index, questions, lucene_jar, limit)
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
        return
    table = Table("measure", "value", box=None, title="plain top-5 search, one thread, CPU time")
    for name, value in report.items():
        table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)


def measure(
    index: Path, questions: Path, lucene_jar: Path | None, limit: int, tantivy: bool = True
) -> dict[str, float]:
    engine = open_index(index, threads=1)
    queries = [Query(question.question) for question, _ in zip(read_questions(questions), range(limit), strict=False)]
    report: dict[str, float] = {"passages": len(engine), "questions": len(queries)}
    report["orienteer_us"] = _microseconds(lambda query: list(engine.search(query, K)), queries)
    report["resident_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if tantivy and (peer := tantivy_engine(index, engine)) is not None:
        report["tantivy_us"] = _microseconds(lambda query: peer.search(query, K), queries)
        report["queries_a_second_of_tantivy"] = report["tantivy_us"] / report["orienteer_us"]
    if lucene_jar is not None:
        timed = lucene_search(lucene_jar, lucene_folder(index, engine, lucene_jar), queries, K, repeats=ROUNDS)
        report["lucene_us"] = sum(row.search_us for row in timed) / len(timed)
        report["queries_a_second_of_lucene"] = report["lucene_us"] / report["orienteer_us"]
        hits = [list(engine.search(query, K)) for query in queries]
        report["lucene_same_results"] = sum(row.hits == own for row, own in zip(timed, hits, strict=True))
    two = open_index(index, threads=2)
    one_wall, two_wall = (_wall(lambda e=e: e.search_many(queries, K)) for e in (engine, two))
    report["speed_up_of_two_threads"] = one_wall / two_wall
    return report


def _microseconds(search: Callable[[Query], object], queries: list[Query]) -> float:
    """CPU time a query, the best of a few rounds after a first one that brings the index into memory."""
    rounds = []
    for _ in range(ROUNDS + 1):
        started = time.thread_time()
        for query in queries:
            search(query)
        rounds.append((time.thread_time() - started) / len(queries) * 1e6)
    return min(rounds[1:])


def _wall(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
