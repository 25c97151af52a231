"""What a refinement costs: by `refine`, by one search each, by Lucene in its JVM, by tantivy; same states, same run.

A state is a question after 0, 2 or 5 refinements, drawn at random among those that leave hits. Its candidates are
the 100 terms with the highest idf of its best 5 passages, and as many random terms of the vocabulary, each with all
operators in both fields. Times are CPU time of one thread; `refine` is charged everything from the call to the
arrays of results, the query's own share included.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lucene_bench import lucene_search
from orienteer.data import read_questions
from orienteer.engine import EmbeddedEngine, Hit, open_index
from orienteer.errors import OrienteerError
from orienteer.query import FIELDS, G4, Query, Refinement
from peers import lucene_folder, tantivy_engine

K = 5
TERMS = 100
DEPTHS = (0, 2, 5)
SAMPLE = 12  # refinements of a state that are also asked one by one, of us and of the peers
SEED = 13
WARMUP_QUERIES = 10_000

err = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class State:
    query: Query
    kind: str  # "idf" or "random": where the candidates' terms come from
    candidates: list[Refinement]
    sample: list[int]


def run(index: Path, questions: Path, lucene_jar: Path | None, tantivy: bool, limit: int, as_json: bool) -> None:
    report = measure(index, questions, lucene_jar, tantivy, limit)
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        _print(report)


def measure(index: Path, questions: Path, lucene_jar: Path | None, tantivy: bool, limit: int) -> dict[str, object]:
    engine = open_index(index, threads=1)
    rng = random.Random(SEED)
    asked = [question.question for question, _ in zip(read_questions(questions), range(limit), strict=False)]
    states = [
        state for text in track(asked, "states", console=err, transient=True) for state in states_of(engine, text, rng)
    ]
    if not states:
        raise OrienteerError(f"no question of {questions} finds a passage in {index}; nothing to measure")
    report: dict[str, object] = {
        "passages": len(engine), "questions": len(asked), "states": len(states),
        "refinements": sum(len(state.candidates) for state in states),
    }  # fmt: skip
    ours, wall = _time_refine(engine, states)
    report["refine_us"] = _by_state(states, ours)
    report["refine_wall_us"] = _by_state(states, wall)["all"]
    report["two_threads_of_one"] = _two_threads(index, states)
    searched, expected = _time_search(engine, states)
    report["search_us"] = searched
    queries = [state.query.refine(state.candidates[i]) for state in states for i in state.sample]
    report["resident_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if lucene_jar is not None:
        warmup = 1 + WARMUP_QUERIES // len(queries)  # the JVM compiles what it has seen often enough
        timed = lucene_search(lucene_jar, lucene_folder(index, engine, lucene_jar), queries, K, 2, warmup)
        report["lucene_us"] = float(np.mean([row.search_us for row in timed]))
        report["lucene_parse_and_fetch_us"] = float(np.mean([row.cpu_us - row.search_us for row in timed]))
        report["lucene_same_results"] = sum(row.hits == hits for row, hits in zip(timed, expected, strict=True))
        report["lucene_compared"] = len(timed)
        report["refine_of_lucene"] = report["refine_us"]["all"] / report["lucene_us"]  # type: ignore[index, operator]
    if tantivy and (peer := tantivy_engine(index, engine)) is not None:
        started = time.thread_time()
        for query in track(queries, "tantivy", console=err, transient=True):
            peer.search(query, K)
        report["tantivy_us"] = (time.thread_time() - started) / len(queries) * 1e6
        report["refine_of_tantivy"] = report["refine_us"]["all"] / report["tantivy_us"]  # type: ignore[index, operator]
    return report


def states_of(engine: EmbeddedEngine, text: str, rng: random.Random) -> list[State]:
    query = Query(text)
    states = []
    for depth in DEPTHS:
        while len(query.refinements) < depth and (candidates := candidates_of(engine, query)):
            refined = query.refine(rng.choice(candidates))
            if len(engine.search(refined, K)):
                query = refined
        terms = [engine.index.term(rng.randrange(engine.index.terms)) for _ in range(TERMS)]
        for kind, found in (("idf", candidates_of(engine, query)), ("random", _all_operators(terms))):
            if found:
                sample = rng.sample(range(len(found)), min(SAMPLE if kind == "idf" else 2, len(found)))
                states.append(State(query, kind, found, sample))
    return states


def candidates_of(engine: EmbeddedEngine, query: Query) -> list[Refinement]:
    passages = engine.passages([hit.id for hit in engine.search(query, K)])
    terms = {term for passage in passages for term in engine.analyze(passage.contents)}
    return _all_operators(sorted(terms, key=lambda term: (-engine.idf("contents", term), term))[:TERMS])


def _all_operators(terms: list[str]) -> list[Refinement]:
    return [refinement for term in terms for field in FIELDS for refinement in G4.refinements(field, term)]


def _time_refine(engine: EmbeddedEngine, states: list[State]) -> tuple[list[float], list[float]]:
    """CPU and wall seconds a state; every state is refined once before, so that the index is in memory for all."""
    for state in track(states, "warming", console=err, transient=True):
        engine.refine(state.query, state.candidates, K)
    cpu, wall = [], []
    for state in track(states, f"refine, {engine.threads} threads", console=err, transient=True):
        started, clock = time.process_time(), time.perf_counter()
        engine.refine(state.query, state.candidates, K)
        wall.append(time.perf_counter() - clock)
        cpu.append(time.process_time() - started)
    return cpu, wall


def _two_threads(index: Path, states: list[State]) -> float:
    """Wall time of `refine_many` with two threads over its time with one, the best of a few rounds each."""
    chosen = [state for state in states if state.kind == "idf"][:300]
    arguments = [state.query for state in chosen], [state.candidates for state in chosen], K
    engines = [open_index(index, threads=threads) for threads in (1, 2)]
    best = [float("inf"), float("inf")]
    for _ in track(range(4), "one thread and two", console=err, transient=True):
        for i, engine in enumerate(engines):
            started = time.perf_counter()
            engine.refine_many(*arguments)
            best[i] = min(best[i], time.perf_counter() - started)
    return best[1] / best[0]


def _by_state(states: list[State], seconds: list[float]) -> dict[str, float]:
    """Microseconds a refinement: over the candidates by idf ("all"), by depth, and over random terms."""

    def mean(chosen: list[int]) -> float:
        total = sum(len(states[i].candidates) for i in chosen)
        return sum(seconds[i] for i in chosen) / total * 1e6 if total else float("nan")

    numbered = list(enumerate(states))
    result = {"all": mean([i for i, state in numbered if state.kind == "idf"])}
    for depth in DEPTHS:
        here = [i for i, state in numbered if state.kind == "idf" and len(state.query.refinements) == depth]
        result[f"after_{depth}"] = mean(here)
    result["random_terms"] = mean([i for i, state in numbered if state.kind == "random"])
    return result


def _time_search(engine: EmbeddedEngine, states: list[State]) -> tuple[float, list[list[Hit]]]:
    """Microseconds a query asked one by one, and its results, which `refine` must have given too."""
    results, seconds = [], 0.0
    for state in track(states, "search", console=err, transient=True):
        refined = engine.refine(state.query, state.candidates, K)
        queries = [state.query.refine(state.candidates[i]) for i in state.sample]
        started = time.thread_time()
        found = [engine.search(query, K) for query in queries]
        seconds += time.thread_time() - started
        for i, hits in zip(state.sample, found, strict=True):
            if list(refined[i]) != list(hits):
                raise OrienteerError(f"refine and search disagree on {state.query.refine(state.candidates[i])}")
            results.append(list(hits))
    return seconds / len(results) * 1e6, results


def _print(report: dict[str, object]) -> None:
    table = Table("measure", "value", box=None, title="cost of a refinement, µs of CPU time, one thread")
    for name, value in report.items():
        for key, number in value.items() if isinstance(value, dict) else [("", value)]:
            shown = f"{number:,.4g}" if isinstance(number, float) else f"{number:,}"
            table.add_row(f"{name} {key}".strip(), shown)
    Console().print(table)
