"""How often an agent that looks in a pool takes the action of one that looks at everything, by size of the pool.

python benchmarks/pool_agreement.py INDEX dev.jsonl.xz 12 0/200 20/200

An embedded index stands for the service, whose results it has: no server is wanted. `20/200` is 20 documents for each
word and 200 for the question. Every state of the exact agent's sessions of five steps is shown to all.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orienteer.agents import make_agent
from orienteer.data import read_questions
from orienteer.engine.adapters.opensearch.analysis import LocalAnalysis
from orienteer.engine.adapters.opensearch.pool import PooledEngine
from orienteer.engine.adapters.opensearch.statistics import FieldStatistics
from orienteer.engine.embedded.batch_analysis import analyze_texts
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.protocol import Hit
from orienteer.query import FIELDS, Query, Refinement
from orienteer.reader import TrainedReader
from orienteer.session import Environment, Settings

STEPS = 5


class Stand:
    """What a pool wants of an `OpenSearchEngine`, by an embedded index; counts searches."""

    def __init__(self, exact: EmbeddedEngine) -> None:
        self._exact, self.searches = exact, 0
        self.fingerprint, self.analysis = exact.fingerprint, LocalAnalysis()
        self.info = SimpleNamespace(meta={"format": 1})
        counts = exact.index.field_counts.tolist()
        self.measured = {
            name: FieldStatistics(passages, 1.0, 1.2, 0.75, length / passages)
            for name, (passages, length) in zip(FIELDS, counts, strict=True)
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exact, name)

    def search(self, query: Query, k: int) -> Sequence[Hit]:
        self.searches += 1
        return self._exact.search(query, k)

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> Sequence[Sequence[Hit]]:
        self.searches += len(refinements)
        return self._exact.refine(query, refinements, k)

    def analyze_many(self, texts: Sequence[str]) -> list[list[str]]:
        return [[term for term in terms if term] for terms in analyze_texts(texts)]


def main(index: str, questions: str, limit: str, *sizes: str) -> None:
    exact, settings = open_index(index, threads=1), Settings(steps=STEPS)
    environment = Environment(exact, TrainedReader.from_pretrained(None, threads=1), settings)
    agent = make_agent("pointer", exact, settings).agent
    stands = {size: Stand(exact) for size in sizes}
    agents = {}
    for size, stand in stands.items():
        holding, depth = map(int, size.split("/"))
        agents[size] = make_agent("pointer", PooledEngine(stand, depth, holding), settings).agent  # type: ignore[arg-type]
    same, seconds, states = dict.fromkeys(sizes, 0), dict.fromkeys(("exact", *sizes), 0.0), 0
    for question in islice(read_questions(Path(questions)), int(limit)):
        sessions = environment.open([question])
        while not sessions[0].ended:
            observations = environment.observe(sessions)
            started = time.process_time()
            actions = agent.act(observations)
            seconds["exact"] += time.process_time() - started
            states += 1
            for size, other in agents.items():
                started = time.process_time()
                same[size] += other.act(observations) == actions
                seconds[size] += time.process_time() - started
            sessions = environment.step(sessions, actions)
    for size, stand in stands.items():
        row = {
            "pool": size, "states": states, "equal": same[size], "searches_a_step": round(stand.searches / states, 1),
            "cpu_ms_a_step": round(1e3 * seconds[size] / states, 1),
            "exact_cpu_ms_a_step": round(1e3 * seconds["exact"] / states, 1),
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
