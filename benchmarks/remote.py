"""Cost of a refinement over a service, by searches in a request and requests at once; beside the embedded engine.

orienteer bench remote http://127.0.0.1:9200/passages --questions dev.jsonl.xz --index my-index
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from orienteer.data import read_questions
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings, read_address
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.embedded.engine import open_index
from orienteer.engine.protocol import Engine
from orienteer.query import FIELDS, G4, Query, Refinement

State = tuple[Query, list[Refinement]]


def run(
    address: str, questions: Path, index: Path | None, limit: int, refinements: int, batches: Sequence[int],
    concurrencies: Sequence[int], as_json: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    settings = replace(ServiceSettings.from_environment(), timeout=120.0)
    first = OpenSearchEngine(Service(read_address(address), settings))
    states = [_state(first, question.question, refinements) for question in islice(read_questions(questions), limit)]
    nodes = first._service.health().get("number_of_data_nodes")
    about = {"passages": first.measured["contents"].passages, "shards": first.info.shards, "nodes": nodes}
    wanted = [first.refine(query, options, 5) for query, options in states]  # and warms the service up
    rows = []
    for batch in batches:
        for concurrency in concurrencies:
            made = replace(settings, batch=batch, concurrency=concurrency)
            engine = OpenSearchEngine(Service(read_address(address), made))
            row = {"engine": "service", **about, "batch": batch, "concurrency": concurrency}
            rows.append(row | _timed(engine, states))
            engine.close()
            _show(rows[-1], as_json)
    if index is not None:
        embedded = open_index(index)
        embedded.refine(*states[0], 5)
        same = sum(
            list(hits) == list(theirs)
            for (query, options), lists in zip(states, wanted, strict=True)
            for hits, theirs in zip(embedded.refine(query, options, 5), lists, strict=True)
        )
        total = sum(len(options) for _, options in states)
        rows.append({"engine": "embedded", **about, "same": same, "of": total} | _timed(embedded, states))
        _show(rows[-1], as_json)
    return rows


def _state(engine: Engine, question: str, refinements: int) -> State:
    """A question and what an agent looks at after it: every operator on words of its best passages."""
    query = Query(question)
    ids = [hit.id for hit in engine.search(query, 5)]
    words = dict.fromkeys(word for passage in engine.passages(ids) for word in engine.analyze(passage.contents))
    options = [each for word in words for field in FIELDS for each in G4.refinements(field, word)]
    return query, options[:refinements]


def _timed(engine: Engine, states: Sequence[State]) -> dict[str, float]:
    times, count = [], 0
    for query, options in states:
        started = time.perf_counter()
        engine.refine(query, options, 5)
        times.append(time.perf_counter() - started)
        count += len(options)
    return {"us_a_refinement": round(sum(times) / count * 1e6, 1), "ms_a_step_p50": round(median(times) * 1e3, 1)}


def _show(row: dict[str, Any], as_json: bool) -> None:
    line = json.dumps(row) if as_json else "  ".join(f"{name} {value}" for name, value in row.items())
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
