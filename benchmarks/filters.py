"""What a filter costs: `refine` and `search` over a whole index, and over parts of it by metadata; what facets cost.

The index has a `year` by hash, a `folder` by place and a `shelf` by hash, so that filters leave 94 %, half, a tenth, a
thousandth, or one stretch of its passages. States are those of `refinements.py`. Times are CPU time of one thread; the
mask of a filter is made before, and its time is given apart.

    python benchmarks/filters.py INDEX QUESTIONS [--count 20] [--out results/filters/filters.json]
    python benchmarks/filters.py --make FROM INDEX     # an index with such metadata of the passages of another
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data import read_questions
from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.engine.facets import facets
from orienteer.query import Query
from refinements import SEED, K, State, states_of

FILTERS = {
    "94 %": "year>=1992", "half": "year>=2008", "a tenth": "year>=2021 and not year=2024", "a thousandth": "shelf=s7",
    "one folder": "folder=part-3",
}  # fmt: skip


def described(engine: EmbeddedEngine) -> Iterator[Passage]:
    for number in range(len(engine)):
        passage = engine.passage_at(number)
        hashed = zlib.crc32(passage.id.encode())
        known = {"year": 1990 + hashed % 35, "folder": f"part-{number // 50_000}", "shelf": f"s{hashed % 1000}"}
        yield replace(passage, metadata=known)


def measure(index: Path, questions: Path, count: int) -> dict[str, Any]:
    engine = open_index(index, threads=1)
    rng = random.Random(SEED)
    asked = [question.question for question, _ in zip(read_questions(questions), range(count), strict=False)]
    states = [state for text in asked for state in states_of(engine, text, rng) if state.kind == "idf"]
    whole = _times(engine, states, asked)
    report: dict[str, Any] = {
        "passages": len(engine), "states": len(states), "refinements": sum(len(state.candidates) for state in states),
        "unfiltered": whole, "filters": {},
    }  # fmt: skip
    report["facets_s"] = _facets(engine)
    for name, where in FILTERS.items():
        started = time.process_time()
        narrowed = engine.filtered(where)
        mask = time.process_time() - started
        times = _times(narrowed, states, asked)
        report["filters"][name] = {
            "where": where, "passages": int(np.count_nonzero(narrowed.allowed)), "mask_s": round(mask, 3), **times,
            "refine_ratio": round(times["refine_ms"] / whole["refine_ms"], 3),
            "search_ratio": round(times["search_ms"] / whole["search_ms"], 3),
        }  # fmt: skip
    return report


def _facets(engine: EmbeddedEngine) -> dict[str, float]:
    """CPU seconds of all facets: the first time, which reads the metadata; again; behind a choice, new and known."""
    seconds = {}
    choice = {"folder": ["part-3"]}
    for name, chosen in (("first", {}), ("again", {}), ("a choice", choice), ("the same choice", choice)):
        started = time.process_time()
        facets(engine, chosen)
        seconds[name] = round(time.process_time() - started, 3)
    return seconds


def _times(engine: EmbeddedEngine, states: list[State], asked: list[str]) -> dict[str, float]:
    """CPU milliseconds of one thread, a state and a question: the least of three rounds, after one to warm up."""
    refined, searched = [], []
    for _ in range(4):
        started = time.thread_time()
        for state in states:
            engine.refine(state.query, state.candidates, K)
        refined.append(time.thread_time() - started)
        started = time.thread_time()
        for text in asked:
            engine.search(Query(text), K)
        searched.append(time.thread_time() - started)
    return {
        "refine_ms": round(min(refined[1:]) / len(states) * 1e3, 3),
        "search_ms": round(min(searched[1:]) / len(asked) * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="what a filter costs")
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument("--make", type=Path, help="make the index, of the passages of this one")
    parser.add_argument("--count", type=int, default=20, help="questions")
    parser.add_argument("--out", type=Path, help="file of the results")
    given = parser.parse_args()
    if given.make is not None:
        build_index(described(open_index(given.make)), given.index)
        return
    text = json.dumps(measure(given.index, given.questions, given.count), indent=1)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
