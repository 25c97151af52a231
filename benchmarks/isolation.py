"""What a light user notices of a heavy one: latency alone and beside, by action.

The server is a process of its own on the bundled corpus. The light user asks, refines, undoes, looks, searches, on one
kept connection. The heavy user, a process of its own, has an agent that searches a tree read a hundred passages a
query, without a pause. Both phases alternate, so that what else the machine does falls on both.

    orienteer bench isolation --seconds 60 --out isolation.json

The server is that of the environment: with the `src` of an older version on PYTHONPATH, this measures it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from soak import cpu_seconds, serving

HEAVY = "muzero[hits=100]"
ROUND = 10.0  # seconds
MOST = 3.0  # times the p99 alone


class Light:
    """A person who clicks."""

    def __init__(self, http: httpx.AsyncClient, questions: list[str]) -> None:
        self._http, self._questions, self._asked = http, questions, 0
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def once(self) -> None:
        """One question with two refinements of one's own, and all that the page asks for meanwhile."""
        self._asked += 1
        question = f"{self._questions[self._asked % len(self._questions)]} {self._asked}"  # new to the reader's cache
        for _ in range(5):
            await self._send("GET health", "GET", "/health")
        asked = await self._send("ask", "POST", "/api/sessions", {"question": question, "agent": "bm25", "steps": 0})
        path = f"/api/sessions/{asked['id']}"
        for term in ("river", "city"):
            await self._send("refine", "POST", f"{path}/refine", {"op": "or", "term": term})
        await self._send("undo", "POST", f"{path}/undo")
        await self._send("look", "GET", path)
        await self._send("search", "POST", "/api/search", {"query": question, "k": 5})

    async def _send(self, name: str, method: str, path: str, body: Any = None) -> Any:
        started = time.perf_counter()
        answer = await self._http.request(method, path, json=body)
        self.seconds[name].append(time.perf_counter() - started)
        return answer.json()


def heavy(address: str) -> None:
    """Asks until it is killed; a dot for each session that is done."""
    from orienteer.bundled import bundled_questions

    questions = [each.question for each in bundled_questions("train")][300:]
    with httpx.Client(base_url=address, timeout=600) as http:
        for number in count():
            question = f"{questions[number % len(questions)]} {number} {os.getpid()}"
            answer = http.post("/api/sessions", json={"question": question, "agent": HEAVY, "steps": 10})
            if answer.status_code != 200:
                sys.exit(answer.text)
            print(".", end="", flush=True)


@contextmanager
def _heavy_user(address: str, done: Path) -> Iterator[None]:
    """A heavy user at work; on leaving he goes in the middle of whatever he does."""
    with done.open("a") as written:
        process = subprocess.Popen([sys.executable, __file__, address], stdout=written)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError("the heavy user gave up")
    finally:
        process.kill()
        process.wait()


async def _measure(address: str, pid: int, seconds: float, folder: Path) -> dict[str, Any]:
    from orienteer.bundled import bundled_questions

    questions = [each.question for each in bundled_questions("train")]
    done = folder / "done"
    async with httpx.AsyncClient(base_url=address, timeout=600) as http:
        alone, beside = Light(http, questions), Light(http, questions[100:])
        await Light(http, questions[200:]).once()  # whatever is made once
        with _heavy_user(address, done):
            while not done.read_text():  # his agent's weights are loaded, its kernels ready
                await asyncio.sleep(0.5)
        for _ in range(max(1, round(seconds / ROUND))):
            await _until_idle(pid)
            await _for_a_while(alone, ROUND)
            with _heavy_user(address, done):
                await _until_busy(pid)
                await _for_a_while(beside, ROUND)
    rows = {name: _row(alone.seconds[name], beside.seconds[name]) for name in alone.seconds}
    return {"heavy_agent": HEAVY, "heavy_sessions": len(done.read_text()), "actions": rows}


async def _until_idle(pid: int) -> None:
    """Until the server uses less than a tenth of a core: what the heavy user left is done."""
    while await _cores(pid) > 0.1:
        pass


async def _until_busy(pid: int) -> None:
    while await _cores(pid) < 0.3:
        pass


async def _cores(pid: int) -> float:
    before, started = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(0.5)
    return (cpu_seconds(pid) - before) / (time.monotonic() - started)


async def _for_a_while(light: Light, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await light.once()


def _row(alone: list[float], beside: list[float]) -> dict[str, float]:
    row: dict[str, float] = {"count_alone": len(alone), "count_beside": len(beside)}
    for name, values in (("alone", alone), ("beside", beside)):
        row[f"{name}_p50_ms"] = round(1000 * median(values), 1)
        row[f"{name}_p99_ms"] = round(1000 * quantiles(values, n=100, method="inclusive")[98], 1)
    row["p99_ratio"] = round(row["beside_p99_ms"] / row["alone_p99_ms"], 2)
    return row


def run(seconds: float, out: Path | None, as_json: bool) -> bool:
    """Whether the light user's p99 stays below `MOST` times that alone, for every action."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name), []) as (port, process, _):
        result = asyncio.run(_measure(f"http://127.0.0.1:{port}", process.pid, seconds, Path(name)))
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result))
    else:
        for action, row in result["actions"].items():
            print(action, row)
    return all(row["p99_ratio"] <= MOST for row in result["actions"].values())


if __name__ == "__main__":
    heavy(sys.argv[1])
