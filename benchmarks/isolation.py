"""What a light user notices of a heavy one: latency alone and beside, by action.

The server is a process of its own on the bundled corpus. The light user asks, refines, undoes, looks, searches, on one
kept connection. The heavy user, a process of its own, has an agent search without a pause (`--heavy`); the usual one
searches a tree and reads a hundred passages a query. Both phases alternate, so that what else the machine does falls on
both. Before them, /health is asked a thousand times on one connection.

    orienteer bench isolation --seconds 60 --out isolation.json

The server is that of the environment: with the `src` of an older version on PYTHONPATH, this measures that one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from soak import cpu_seconds, serving

HEAVY = "muzero[hits=100]"
ROUND = 10.0  # seconds
MOST = 3.0  # times the p99 alone
HEALTH = 1000  # requests
HEALTH_MS = 2.0  # their median at most
_BUSY, _IDLE = 0.3, 0.1  # cores of a server with and without the heavy user


class Light:
    """A person who clicks."""

    def __init__(self, http: HTTPConnection, questions: list[str]) -> None:
        self._http, self._questions, self._asked = http, questions, 0
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def once(self) -> None:
        """One question with two refinements of one's own, and all that the page asks for meanwhile."""
        self._asked += 1
        question = f"{self._questions[self._asked % len(self._questions)]} {self._asked}"  # new to the reader's cache
        for _ in range(5):
            self.send("GET health", "GET", "/health")
        asked = self.send("ask", "POST", "/api/sessions", {"question": question, "agent": "bm25", "steps": 0})
        path = f"/api/sessions/{asked['id']}"
        for term in ("river", "city"):
            self.send("refine", "POST", f"{path}/refine", {"op": "or", "term": term})
        self.send("undo", "POST", f"{path}/undo")
        self.send("look", "GET", path)
        self.send("search", "POST", "/api/search", {"query": question, "k": 5})

    def for_a_while(self, seconds: float) -> None:
        self._http.close()  # the server has ended a connection that was idle
        self._http.connect()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.once()

    def send(self, name: str, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body)
        started = time.perf_counter()
        self._http.request(method, path, data, {"content-type": "application/json"} if data else {})
        answer = self._http.getresponse().read()
        self.seconds[name].append(time.perf_counter() - started)
        return json.loads(answer)


def heavy(port: int, agent: str) -> None:
    """Asks until it is killed; prints a dot for each session that is done."""
    from orienteer.bundled import bundled_questions

    questions = [each.question for each in bundled_questions("train")][300:]
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as http:
        for number in count():
            question = f"{questions[number % len(questions)]} {number} {os.getpid()}"
            body = json.dumps({"question": question, "agent": agent, "steps": 10})
            http.request("POST", "/api/sessions", body, {"content-type": "application/json"})
            answer = http.getresponse()
            text = answer.read()
            if answer.status != 200:
                sys.exit(text.decode())
            print(".", end="", flush=True)


@contextmanager
def _heavy_user(port: int, agent: str, done: Path) -> Iterator[None]:
    """A heavy user at work; on leaving he goes in the middle of whatever he does."""
    with done.open("a") as written:
        process = subprocess.Popen([sys.executable, __file__, str(port), agent], stdout=written)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError("the heavy user gave up")
    finally:
        process.kill()
        process.wait()


def _measure(port: int, pid: int, seconds: float, agent: str, folder: Path) -> dict[str, Any]:
    from orienteer.bundled import bundled_questions

    questions = [each.question for each in bundled_questions("train")]
    done = folder / "done"
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as http:
        alone, beside, first = (Light(http, questions[start:]) for start in (0, 100, 200))
        first.once()  # whatever is made once
        health = _health(first, pid)
        with _heavy_user(port, agent, done):
            while not done.read_text():  # his agent's weights are loaded, its kernels ready
                time.sleep(0.5)
        for _ in range(max(1, round(seconds / ROUND))):
            while _cores(pid) > _IDLE:  # what the heavy user left is done
                pass
            alone.for_a_while(ROUND)
            with _heavy_user(port, agent, done):
                while _cores(pid) < _BUSY:
                    pass
                beside.for_a_while(ROUND)
    rows = {name: _row(alone.seconds[name], beside.seconds[name]) for name in alone.seconds}
    load = round(os.getloadavg()[0], 1)
    return {
        "heavy_agent": agent, "heavy_sessions": len(done.read_text()), "load_average": load,
        "health": health, "actions": rows,
    }  # fmt: skip


def _health(light: Light, pid: int) -> dict[str, float]:
    light.seconds.clear()
    before = cpu_seconds(pid)
    for _ in range(HEALTH):
        light.send("GET health", "GET", "/health")
    seconds, cpu = light.seconds["GET health"], cpu_seconds(pid) - before
    return {
        "count": HEALTH, "p50_ms": round(1000 * median(seconds), 2), "p99_ms": round(1000 * _p99(seconds), 2),
        "server_cpu_ms": round(1000 * cpu / HEALTH, 2),
    }  # fmt: skip


def _cores(pid: int) -> float:
    """Cores that the server uses, over half a second."""
    before, started = cpu_seconds(pid), time.monotonic()
    time.sleep(0.5)
    return (cpu_seconds(pid) - before) / (time.monotonic() - started)


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98]


def _row(alone: list[float], beside: list[float]) -> dict[str, float]:
    row: dict[str, float] = {"count_alone": len(alone), "count_beside": len(beside)}
    for name, values in (("alone", alone), ("beside", beside)):
        row[f"{name}_p50_ms"] = round(1000 * median(values), 1)
        row[f"{name}_p99_ms"] = round(1000 * _p99(values), 1)
    row["p99_ratio"] = round(row["beside_p99_ms"] / row["alone_p99_ms"], 2)
    row["p99_ratio_low"], row["p99_ratio_high"] = _interval(alone, beside)
    return row


def _interval(alone: list[float], beside: list[float], draws: int = 2000) -> list[float]:
    """95 % of the ratio of p99, by bootstrap."""
    rng = np.random.default_rng(0)
    one, other = (np.quantile(rng.choice(each, (draws, len(each))), 0.99, axis=1) for each in (alone, beside))
    return [round(float(bound), 2) for bound in np.quantile(other / one, (0.025, 0.975))]


def run(seconds: float, out: Path | None, as_json: bool, agent: str = HEAVY) -> bool:
    """Whether the light user's p99 stays below `MOST` times that alone, for every action, and /health is quick."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name), []) as (port, process, _):
        result = _measure(port, process.pid, seconds, agent, Path(name))
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result))
    else:
        print("GET health, kept connection", result["health"])
        for action, row in result["actions"].items():
            print(action, row)
    return result["health"]["p50_ms"] < HEALTH_MS and all(
        row["p99_ratio"] <= MOST for row in result["actions"].values()
    )


if __name__ == "__main__":
    heavy(int(sys.argv[1]), sys.argv[2])
