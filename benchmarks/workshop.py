"""Speed of the query workshop: one edit of `why-not` over a whole index.

python benchmarks/workshop.py why-not --index INDEX --questions QUESTIONS
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np

from orienteer.data import read_questions
from orienteer.engine.embedded.engine import open_index
from orienteer.query import Query
from orienteer.workshop.why_not import why_not


def measure_why_not(index: Path, questions: Path, limit: int, rank: int) -> dict[str, float]:
    """Milliseconds of `why_not` with one change, for the passage at a rank of each question's hits; one thread."""
    engine = open_index(index, threads=1)
    cases = []
    for question in islice(read_questions(questions), limit):
        hits = list(engine.search(Query(question.question), rank))
        if len(hits) == rank:
            cases.append((Query(question.question), hits[-1].id))
    for query, passage in cases[:3]:
        why_not(engine, query, passage, changes=1)
    gc.freeze()  # as the server does: a full collection walks what is loaded once, some 50 ms
    wall, cpu, tried, found = [], [], [], 0
    for query, passage in cases:
        started, used = time.perf_counter(), time.process_time()
        result = why_not(engine, query, passage, changes=1)
        cpu.append((time.process_time() - used) * 1e3)
        wall.append((time.perf_counter() - started) * 1e3)
        tried.append(result.tried)
        found += bool(result.edits)
    return {
        "passages": len(engine), "cases": len(cases), "found_an_edit": found, "edits_tried": float(np.mean(tried)),
        "cpu_ms_mean": float(np.mean(cpu)), "cpu_ms_95": float(np.percentile(cpu, 95)), "cpu_ms_max": max(cpu),
        "wall_ms_median": float(np.median(wall)), "wall_ms_95": float(np.percentile(wall, 95)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["why-not"])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--rank", type=int, default=100)
    given = parser.parse_args()
    print(json.dumps(measure_why_not(given.index, given.questions, given.limit, given.rank), indent=1))


if __name__ == "__main__":
    main()
