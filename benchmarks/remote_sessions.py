"""Sessions of an agent over a service, a pool, a mirror and the embedded engine: seconds, searches, agreement.

CPU seconds are this process's and the nodes' together: what a session would take on one quiet processor.

orienteer bench remote-sessions http://127.0.0.1:9200/passages --questions dev.jsonl.xz --index my-index
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

from orienteer.agents import make_agent
from orienteer.data import Question, read_questions
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings, read_address
from orienteer.engine.adapters.opensearch.clients import JSON
from orienteer.engine.adapters.opensearch.mirror import MirroredEngine
from orienteer.engine.adapters.opensearch.pool import PooledEngine
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.embedded.engine import open_index
from orienteer.engine.protocol import Engine
from orienteer.reader import TrainedReader
from orienteer.session import Environment, Settings


def run(
    address: str, questions: Path, index: Path, agent: str, steps: int, limit: int, ways: Sequence[str],
    mirror: Path | None, as_json: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """`index` holds the same passages: it is the embedded engine and the judge of agreement."""
    asked = list(islice(read_questions(questions), limit + 1))  # the first one warms every way up
    reader = TrainedReader.from_pretrained(None, threads=1)
    settings = replace(ServiceSettings.from_environment(), timeout=120.0)
    made: dict[str, tuple[Engine, Service | None]] = {"embedded": (open_index(index, threads=1), None)}
    for way in ways:
        service = Service(read_address(address), settings)
        remote = OpenSearchEngine(service)
        engine: Engine = remote
        if way == "pool":
            engine = PooledEngine(remote)
        elif way == "mirror":
            engine = MirroredEngine(remote, open_index(mirror / "index" if mirror else index, threads=1))
        made[way] = engine, service
    played = {
        way: _Player(Environment(engine, reader, Settings(steps=steps)), agent, service)
        for way, (engine, service) in made.items()
    }
    for number, question in enumerate(asked):
        for player in played.values():  # side by side: what else the machine does is shared
            player.play(question, counts=number > 0)
    exact = played["embedded"]
    rows = [{"engine": way, "steps": steps, "sessions": limit} | player.row(exact) for way, player in played.items()]
    for row in rows:
        line = json.dumps(row) if as_json else "  ".join(f"{name} {value}" for name, value in row.items())
        sys.stdout.write(line + "\n")
    return rows


class _Player:
    def __init__(self, environment: Environment, agent: str, service: Service | None) -> None:
        self._environment, self._service = environment, service
        self._agent = make_agent(agent, environment.engine, environment.settings).agent
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.node_cpu: list[float] = []
        self.searches: list[int] = []
        self.actions: list[list[Any]] = []

    def play(self, question: Question, *, counts: bool) -> None:
        before = self._so_far()
        actions: list[Any] = []
        sessions = self._environment.open([question])
        while not sessions[0].ended:
            chosen = self._agent.act(self._environment.observe(sessions))
            actions += chosen
            sessions = self._environment.step(sessions, chosen)
        if counts:
            for column, now, then in zip(
                (self.seconds, self.cpu, self.node_cpu, self.searches), self._so_far(), before, strict=True
            ):
                column.append(now - then)  # type: ignore[attr-defined]
            self.actions.append(actions)

    def _so_far(self) -> tuple[float, float, float, int]:
        """Seconds, CPU seconds here and of the nodes, searches."""
        here = time.perf_counter(), time.process_time()
        if self._service is None:
            return *here, 0.0, 0
        nodes = self._service._client.send("GET", "/_nodes/stats/process", {}, None, JSON)["nodes"].values()
        there = sum(node["process"]["cpu"]["total_in_millis"] for node in nodes) / 1000
        return *here, there, self._service.counters.searches

    def row(self, exact: _Player) -> dict[str, Any]:
        """Agreement is of actions up to the first that differs, that one counted: states are the same till then."""
        same = compared = 0
        for ours, wanted in zip(self.actions, exact.actions, strict=True):
            for one, other in zip(ours, wanted, strict=False):
                compared += 1
                same += one == other
                if one != other:
                    break
        total = [here + there for here, there in zip(self.cpu, self.node_cpu, strict=True)]
        return {
            "p50_seconds": round(median(self.seconds), 3), "p50_ratio": _ratio(self.seconds, exact.seconds),
            "p50_cpu": round(median(total), 3), "p50_cpu_of_nodes": round(median(self.node_cpu), 3),
            "p50_cpu_ratio": _ratio(total, exact.cpu),
            "searches_a_session": round(sum(self.searches) / len(self.searches), 1),
            "actions_equal": same, "actions_compared": compared,
            "sessions_equal": sum(a == b for a, b in zip(self.actions, exact.actions, strict=True)),
        }  # fmt: skip


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over sessions."""
    return round(median(one / other for one, other in zip(ours, theirs, strict=True)), 2)
