"""A server left on: many clients who take random actions of the whole API, for hours.

    orienteer bench soak --minutes 120 --clients 100 --out soak.json

The server is a process of its own on the bundled corpus, with a gallery that is evaluated first. Each client has a
connection, waits some seconds between two actions (`--pace`), and keeps up to three sessions whose steps it knows.
Actions: ask (whole, streamed, left in the middle), view, list, refine, undo, branch, hand back, save, file, load (its
own file, a damaged one), delete, search, why, passage, catalogue, gallery, probes, malformed and half-sent requests.

What counts as a fault: a status of 500 or more; a status that the action does not allow; a connection that the server
breaks; a session with other steps than its client saw; a session that is gone though it was used in the last minute or
saved. The report has the faults, p50 and p99 by action, and every minute the server's memory, its sessions and their
bytes. It also has the longest time for which the clients, one process, had no core: who stands still for ten seconds
between connecting and sending is refused, and rightly. Each agent is asked once before, so that what is loaded once is
there. The report is written every minute, so that a killed run has one too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import httpx

AGENTS = ("prf-answer", "prf-answer", "bm25", "prf-idf-t", "pointer")
RECENT = 60.0  # seconds; a session used since then must be there
KEPT = 3  # sessions a client holds at one time
SAVED = 4  # saved sessions a client holds at one time
JSON = {"content-type": "application/json"}
_MAX_FAULTS = 50  # described in the report; all are counted
_STALL = 0.1  # seconds between two looks


@dataclass(slots=True)
class Held:
    """A session as its client knows it."""

    id: str
    best: list[list[str]]
    used: float
    saved: list[list[str]] | None = None  # the steps as they were saved
    question: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """The server at one time: bytes in memory, sessions, their bytes, seconds of processor time so far."""

    seconds: float
    resident: int
    sessions: int
    session_bytes: int
    cpu_seconds: float


@dataclass(slots=True)
class Seen:
    """What the clients saw."""

    started: float = field(default_factory=time.monotonic)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    faults: Counter[str] = field(default_factory=Counter)
    described: list[str] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    checked: int = 0
    expired: int = 0
    longest_stall: float = 0.0  # seconds in which this process, whose clients are all of them, did not run

    def fault(self, kind: str, what: str) -> None:
        self.faults[kind] += 1
        if len(self.described) < _MAX_FAULTS:
            self.described.append(f"{time.monotonic() - self.started:.0f} s: {kind}: {what}"[:500])


class Client:
    """One person with a browser, who is not careful."""

    def __init__(self, port: int, number: int, seen: Seen, questions: list[str], gallery: dict[str, int]) -> None:
        self.random = random.Random(number)
        self.seen, self.questions, self.port, self.gallery = seen, questions, port, gallery
        self.held: dict[str, Held] = {}
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=300, limits=httpx.Limits(max_connections=4), verify=False
        )
        self.actions: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (6, self.ask), (4, self.ask_streamed), (2, self.ask_and_leave), (2, self.leave_a_stream),
            (8, self.view), (2, self.list), (10, self.refine), (4, self.undo), (5, self.branch), (4, self.hand_back),
            (5, self.save), (3, self.file), (3, self.load), (2, self.load_damaged), (4, self.delete),
            (8, self.search), (4, self.why), (4, self.passage), (2, self.catalogue), (4, self.browse_gallery),
            (2, self.open_gallery), (3, self.probe), (3, self.malformed), (1, self.half_sent), (2, self.page),
        ]  # fmt: skip

    async def run(self, until: float, pace: float) -> None:
        await asyncio.sleep(self.random.uniform(0, pace))
        weights = [weight for weight, _ in self.actions]
        while time.monotonic() < until:
            [(_, act)] = self.random.choices(self.actions, weights)
            try:
                await act()
            except httpx.HTTPError as error:
                self.seen.fault("connection", f"{act.__name__}: {error!r}")
            except Exception as error:
                self.seen.fault("client", f"{act.__name__}: {error!r}")
            await asyncio.sleep(min(self.random.expovariate(1 / pace), max(0.0, until - time.monotonic())))

    async def close(self) -> None:
        """Every session that must still be there is looked at once more."""
        for held in list(self.held.values()):
            with suppress(httpx.HTTPError):
                await self._look(held, last=True)
        await self.http.aclose()

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _send(
        self, name: str, method: str, path: str, body: Any = None, *, allowed: tuple[int, ...] = (), **options: Any
    ) -> httpx.Response:
        started = time.monotonic()
        if body is not None:
            options.update(content=body if isinstance(body, bytes) else json.dumps(body), headers=JSON)
        answer = await self.http.request(method, path, **options)
        self.seen.seconds[name].append(time.monotonic() - started)
        self.seen.statuses[name][answer.status_code] += 1
        if answer.status_code >= 500:
            self.seen.fault("5xx", f"{name} {path}: {answer.status_code} {answer.text[:200]}")
        elif answer.status_code >= 300 and answer.status_code not in allowed:
            self.seen.fault("status", f"{name} {path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _hold(self, view: dict[str, Any]) -> Held:
        id = view["id"]
        best = [step["best"] for step in view["steps"]]
        if id in self.held:
            self.held[id].best, self.held[id].used = best, time.monotonic()
            return self.held[id]
        unsaved = [each for each in self.held.values() if each.saved is None]
        if len(unsaved) >= KEPT:
            del self.held[self.random.choice(unsaved).id]
        self.held[id] = Held(id, best, time.monotonic(), question=view["question"])
        return self.held[id]

    def _any(self) -> Held | None:
        return self.random.choice(list(self.held.values())) if self.held else None

    def _missing(self, held: Held, answer: httpx.Response) -> bool:
        """True where the session is not there; a fault if it should be. A saved one comes back as it was saved."""
        if answer.status_code != 404:
            return False
        if held.saved is not None or time.monotonic() - held.used < RECENT:
            self.seen.fault("lost session", f"{held.id}, used {time.monotonic() - held.used:.0f} s ago")
        else:
            self.seen.expired += 1
        self.held.pop(held.id, None)
        return True

    def _check(self, held: Held, view: dict[str, Any]) -> None:
        """A saved session that left memory comes back as it was saved."""
        best = [step["best"] for step in view["steps"]]
        self.seen.checked += 1
        stale = time.monotonic() - held.used >= RECENT
        if best != held.best and not (stale and best == held.saved):
            self.seen.fault("other steps", f"{held.id}: {len(best)} steps, expected {len(held.best)}")
        held.best, held.used = best, time.monotonic()

    async def _look(self, held: Held, last: bool = False) -> None:
        allowed = (404,)
        answer = await self._send("GET session", "GET", f"/api/sessions/{held.id}", allowed=allowed)
        if not self._missing(held, answer) and answer.status_code == 200:
            self._check(held, answer.json())

    # --- sessions ---------------------------------------------------------------------------------------------------

    def _question(self) -> dict[str, Any]:
        question = self.random.choice(self.questions)
        if self.random.random() < 0.5:  # new to the reader's cache
            question += f" {self.random.randrange(10_000)}"
        body: dict[str, Any] = {"question": question, "agent": self.random.choice(AGENTS)}
        body["steps"] = self.random.randrange(5)
        if self.random.random() < 0.1:
            body["deadline"] = 0.05
        return body

    async def ask_every_agent(self) -> None:
        for agent in dict.fromkeys(AGENTS):
            body = {"question": self.questions[0], "agent": agent, "steps": 1}
            await self._send("POST sessions", "POST", "/api/sessions", body)

    async def ask(self) -> None:
        answer = await self._send("POST sessions", "POST", "/api/sessions", self._question(), allowed=(429,))
        if answer.status_code == 200 and answer.json()["steps"]:
            self._hold(answer.json())

    async def _stream(self, leave_after: int | None) -> None:
        started, events, view = time.monotonic(), 0, {}
        request = self.http.stream(
            "POST", "/api/sessions", content=json.dumps(self._question()),
            headers={**JSON, "accept": "text/event-stream"},
        )  # fmt: skip
        kinds = []
        async with request as answer:
            self.seen.statuses["POST sessions, streamed"][answer.status_code] += 1
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                    events += 1
                elif line.startswith("data: "):
                    view = json.loads(line.removeprefix("data: ")) if kinds[-1] in ("end", "error") else view
                    if leave_after is not None and events > leave_after:
                        return
        self.seen.seconds["POST sessions, streamed"].append(time.monotonic() - started)
        if kinds[-1:] == ["error"] and view.get("kind") != "TooBusyError":
            self.seen.fault("error event", str(view))
        elif kinds[-1:] not in (["end"], ["error"]):
            self.seen.fault("connection", f"a stream broke off after {kinds}")
        elif kinds[-1:] == ["end"]:
            found = await self._send("GET session", "GET", f"/api/sessions/{view['id']}")
            if found.status_code == 200:
                if len(found.json()["steps"]) != kinds.count("step"):
                    self.seen.fault("other steps", f"{view['id']}: streamed {kinds}")
                self._hold(found.json())

    async def ask_streamed(self) -> None:
        await self._stream(None)

    async def leave_a_stream(self) -> None:
        await self._stream(self.random.randrange(4))

    async def ask_and_leave(self) -> None:
        """A client that goes while its answer is being made."""
        body = json.dumps(self._question()).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_head("POST", "/api/sessions", self.port, len(body)) + body)
        await writer.drain()
        await asyncio.sleep(self.random.uniform(0, 0.5))
        writer.close()

    async def view(self) -> None:
        if held := self._any():
            await self._look(held)

    async def list(self) -> None:
        await self._send("GET sessions", "GET", "/api/sessions")

    async def refine(self) -> None:
        if (held := self._any()) is None:
            return
        word = self.random.choice(self.questions).split()[-1]
        body: dict[str, Any] = {"op": self.random.choice(["or", "+", "-", "^"]), "term": word}
        if body["op"] == "^":
            body["weight"] = self.random.choice([0.1, 2, 8])
        await self._take(held, "POST refine", "refine", body)

    async def undo(self) -> None:
        if held := self._any():
            await self._take(held, "POST undo", "undo", None)

    async def hand_back(self) -> None:
        if held := self._any():
            await self._take(held, "POST agent", "agent", {"steps": self.random.randrange(1, 4)})

    async def _take(self, held: Held, name: str, path: str, body: Any) -> None:
        answer = await self._send(name, "POST", f"/api/sessions/{held.id}/{path}", body, allowed=(404, 409, 422, 429))
        if self._missing(held, answer) or answer.status_code != 200:
            return
        best = [step["best"] for step in answer.json()["steps"]]
        if best[: len(held.best)] != held.best and time.monotonic() - held.used < RECENT:
            self.seen.fault("other steps", f"{held.id}: {name} changed steps that were taken before")
        held.best, held.used = best, time.monotonic()

    async def branch(self) -> None:
        if (held := self._any()) is None or not held.best:
            return
        step = self.random.randrange(len(held.best))
        answer = await self._send(
            "POST branch", "POST", f"/api/sessions/{held.id}/branch", {"step": step}, allowed=(404, 409, 422, 429)
        )
        if self._missing(held, answer) or answer.status_code != 201:
            return
        held.used = time.monotonic()
        branch = self._hold(answer.json())
        if branch.best != held.best[: step + 1]:
            self.seen.fault("other steps", f"{branch.id}: a branch of {held.id} at {step}")

    async def save(self) -> None:
        if (held := self._any()) is None:
            return
        saved = [each for each in self.held.values() if each.saved is not None]
        if held.saved is None and len(saved) >= SAVED:
            await self._delete(self.random.choice(saved))
        # Two at one time, as two tabs of one person.
        answers = await asyncio.gather(
            *(
                self._send("POST save", "POST", f"/api/sessions/{held.id}/save", allowed=(404, 409))
                for _ in range(self.random.choice([1, 2]))
            )
        )
        for answer in answers:
            if not self._missing(held, answer) and answer.status_code == 200:
                self._check(held, answer.json())
                held.saved = held.best

    async def file(self) -> bytes | None:
        if (held := self._any()) is None:
            return None
        answer = await self._send("GET file", "GET", f"/api/sessions/{held.id}/file", allowed=(404, 409))
        if self._missing(held, answer) or answer.status_code != 200:
            return None
        held.used = time.monotonic()
        return answer.content

    async def load(self) -> None:
        if (line := await self.file()) is None:
            return
        answer = await self._send("POST load", "POST", "/api/sessions/load", line)
        if answer.status_code == 201:
            steps = [step["best"] for step in json.loads(line)["steps"]]
            if self._hold(answer.json()).best != steps:
                self.seen.fault("other steps", "a loaded session")

    async def load_damaged(self) -> None:
        if (line := await self.file()) is None:
            return
        row = json.loads(line)
        damage = self.random.randrange(6)
        if damage == 0:
            row["settings"]["hits"] = 2000
        elif damage == 1:
            row["steps"] = row["steps"] * 50
        elif damage == 2:
            row["question"] = "\ud800" * 10
        elif damage == 3:
            row[self.random.choice(list(row))] = self.random.choice([None, 10**400, [], {}, "x", -1, True])
        elif damage == 4:
            place = self.random.randrange(len(line))
            line = line[:place] + bytes([self.random.randrange(256)]) + line[place + 1 :]
        else:
            row["filler"] = "x" * self.random.randrange(1 << 20)
        body = line if damage == 4 else json.dumps(row).encode()
        answer = await self._send(
            "POST load, damaged", "POST", "/api/sessions/load", body, allowed=(400, 413, 422, 409)
        )
        if answer.status_code == 201 and self.random.random() < 0.5:
            id = answer.json()["id"]
            await self._send(
                "POST refine, damaged", "POST", f"/api/sessions/{id}/refine", {"op": "or", "term": "river"},
                allowed=(409, 422, 429),
            )  # fmt: skip

    async def delete(self) -> None:
        if held := self._any():
            await self._delete(held)

    async def _delete(self, held: Held) -> None:
        answer = await self._send("DELETE session", "DELETE", f"/api/sessions/{held.id}", allowed=(404, 409))
        if not self._missing(held, answer) and answer.status_code == 204:
            del self.held[held.id]

    # --- everything else --------------------------------------------------------------------------------------------

    async def search(self) -> None:
        body = {"query": self.random.choice(self.questions), "k": self.random.choice([1, 5, 10, 100])}
        await self._send("POST search", "POST", "/api/search", body, allowed=(422,))

    async def why(self) -> None:
        body = {"query": self.random.choice(self.questions), "passage": await self._passage_id()}
        await self._send("POST why", "POST", "/api/why", body, allowed=(404, 422))

    async def passage(self) -> None:
        await self._send("GET passage", "GET", "/api/passage", params={"id": await self._passage_id()}, allowed=(404,))

    async def _passage_id(self) -> str:
        held = self._any()
        ids = [id for best in held.best for id in best] if held else []
        return self.random.choice(ids) if ids else "no such passage"

    async def catalogue(self) -> None:
        await self._send("GET catalogue", "GET", self.random.choice(["/api/about", "/api/agents", "/api/indexes"]))

    async def browse_gallery(self) -> None:
        await self._send("GET gallery", "GET", "/api/gallery")
        params = {"agent": self.random.choice(list(self.gallery)), "limit": 20, "offset": self.random.randrange(20)}
        await self._send("GET gallery sessions", "GET", "/api/gallery/sessions", params=params)

    async def open_gallery(self) -> None:
        agent = self.random.choice(list(self.gallery))
        params = {"agent": agent, "number": self.random.randrange(self.gallery[agent])}
        answer = await self._send("POST gallery open", "POST", "/api/gallery/open", params=params)
        if answer.status_code == 201:
            self._hold(answer.json())

    async def probe(self) -> None:
        await self._send("GET probe", "GET", self.random.choice(["/health", "/ready", "/metrics"]))

    async def page(self) -> None:
        await self._send("GET page", "GET", "/")

    async def malformed(self) -> None:
        refused = (400, 403, 404, 405, 413, 422)
        name = "malformed"
        match self.random.randrange(7):
            case 0:
                await self._send(name, "POST", "/api/sessions", b'{"question": ' + b"[" * 50_000, allowed=refused)
            case 1:
                await self._send(name, "POST", "/api/sessions", {"question": "\ud800 \udfff"}, allowed=(200, *refused))
            case 2:
                await self._send(name, "POST", "/api/search", {"query": "x", "k": 10**400}, allowed=refused)
            case 3:
                await self._send(name, "GET", "/x%0aadmin%1b]0;title%07", allowed=refused)
            case 4:
                await self._send(name, "GET", "/health", headers={"origin": "http://[::1"}, allowed=refused)
            case 5:
                await self._send(name, "POST", "/api/sessions/load", b" " * (3 << 20), allowed=refused)
            case 6:
                await self._send(name, "BREW", "/api/sessions", allowed=refused)

    async def half_sent(self) -> None:
        """A request that never comes whole, kept open for a while."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = _head("POST", "/api/search", self.port, 1000)
        writer.write(head[: self.random.randrange(1, len(head))] if self.random.random() < 0.5 else head + b'{"query')
        with suppress(OSError):
            await writer.drain()
            await asyncio.sleep(self.random.uniform(0, 20))
        writer.close()


def _head(method: str, path: str, port: int, size: int) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"content-length: {size}\r\n\r\n"
    ).encode()


# --- the server and the report ----------------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, options: list[str]) -> Iterator[tuple[int, subprocess.Popen[str], Path]]:
    """A workbench of its own, as nice as this process: its port, its process, its log."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "orienteer.cli", "serve", "--port", "0", "--sessions", str(folder / "saved")]
    with log.open("w") as written:
        process = subprocess.Popen(
            [*command, *options], stderr=written, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )  # fmt: skip
    try:
        port = 0
        while process.poll() is None:
            if not port and (found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text())):
                port = int(found[1])
            with suppress(URLError, OSError):
                if port and urlopen(f"http://127.0.0.1:{port}/ready"):
                    break
            time.sleep(0.2)
        else:
            sys.exit(f"the server did not start: {log.read_text()}")
        yield port, process, log
    finally:
        process.terminate()
        process.wait()


def evaluated(folder: Path, questions: int = 12) -> dict[str, int]:
    """A gallery: how many sessions it has of each agent."""
    from orienteer.api import Searcher
    from orienteer.bundled import bundled_questions
    from orienteer.evaluation import evaluate
    from orienteer.session import Settings

    searcher, names = Searcher.open(), ["bm25", "prf-answer"]
    asked = bundled_questions("test")[:questions]
    evaluate(searcher.engine, searcher.reader, asked, names, folder, settings=Settings(steps=3), figures=False)
    return dict.fromkeys(names, len(asked))


def memory(pid: int) -> int:
    """Bytes of the process that are in memory."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) * 1024 if match else 0


def cpu_seconds(pid: int) -> float:
    """Processor time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def looked_at(port: int, pid: int, seconds: float) -> Memory:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        gauges = dict(re.findall(r"(?m)^orienteer_(sessions_in_memory|session_bytes) (\S+)", answer.read().decode()))
    sessions, size = (int(float(gauges[name])) for name in ("sessions_in_memory", "session_bytes"))
    return Memory(seconds, memory(pid), sessions, size, cpu_seconds(pid))


def report(seen: Seen, clients: int, pace: float, done: bool) -> dict[str, Any]:
    """The figures so far."""
    half = [each for each in seen.memory if each.seconds > seen.memory[-1].seconds / 2]
    sizes = [each.resident / 1e6 for each in half]
    slope = linear_regression([each.seconds / 3600 for each in half], sizes).slope if len(half) > 2 else None
    return {
        "done": done, "clients": clients, "pace_seconds": pace,
        "minutes": round((time.monotonic() - seen.started) / 60, 1),
        "requests": sum(sum(each.values()) for each in seen.statuses.values()),
        "faults": dict(seen.faults), "described": seen.described,
        "sessions_checked": seen.checked, "sessions_expired": seen.expired,
        "longest_stall_of_the_clients_s": round(seen.longest_stall, 2),
        "memory": [
            {"minute": round(each.seconds / 60, 1), "mb": round(each.resident / 1e6, 1), "sessions": each.sessions,
             "session_mb": round(each.session_bytes / 1e6, 2), "cpu_seconds": round(each.cpu_seconds, 1)}
            for each in seen.memory
        ],
        "memory_mb_second_half": [round(min(sizes), 1), round(max(sizes), 1)] if sizes else None,
        "memory_mb_per_hour_second_half": None if slope is None else round(slope, 2),
        "actions": {name: _row(values, seen.statuses[name]) for name, values in sorted(seen.seconds.items())},
    }  # fmt: skip


def _row(seconds: list[float], statuses: Counter[int]) -> dict[str, Any]:
    p99 = quantiles(seconds, n=100)[98] if len(seconds) > 1 else seconds[0]
    return {
        "count": len(seconds), "p50_ms": round(1000 * median(seconds), 1), "p99_ms": round(1000 * p99, 1),
        "max_ms": round(1000 * max(seconds), 1), "statuses": {str(k): v for k, v in sorted(statuses.items())},
    }  # fmt: skip


async def _soak(
    port: int, pid: int, clients: int, minutes: float, pace: float, gallery: dict[str, int], out: Path
) -> dict[str, Any]:
    from orienteer.bundled import bundled_questions

    seen = Seen()
    questions = [each.question for each in (*bundled_questions("train"), *bundled_questions("test"))]
    people = [Client(port, number, seen, questions, gallery) for number in range(clients)]

    async def watch() -> None:
        while True:
            try:
                seen.memory.append(await asyncio.to_thread(looked_at, port, pid, time.monotonic() - seen.started))
            except OSError as error:
                seen.fault("server", f"gone or silent: {error}")
            out.write_text(json.dumps(report(seen, clients, pace, False), indent=1))
            await asyncio.sleep(60)

    async def notice_stalls() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_STALL)
            seen.longest_stall = max(seen.longest_stall, time.monotonic() - before - _STALL)

    await people[0].ask_every_agent()
    until = time.monotonic() + 60 * minutes
    watching = asyncio.gather(watch(), notice_stalls())
    await asyncio.gather(*(each.run(until, pace) for each in people))
    for each in people:
        await each.close()
    watching.cancel()
    return report(seen, clients, pace, True)


def run(minutes: float, clients: int, pace: float, out: Path, as_json: bool) -> bool:
    """Whether there was no fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gallery = evaluated(folder / "evaluation")
        with serving(folder, ["--evaluation", str(folder / "evaluation")]) as (port, process, log):
            result = asyncio.run(_soak(port, process.pid, clients, minutes, pace, gallery, out))
            tracebacks = log.read_text().count("Traceback")
        result["tracebacks_in_log"] = tracebacks
    out.write_text(json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result))
    else:
        _print(result)
    return not result["faults"] and not tracebacks


def _print(result: dict[str, Any]) -> None:
    print(f"{result['requests']:,} requests of {result['clients']} clients in {result['minutes']} minutes")
    print(f"faults: {result['faults'] or 'none'}; tracebacks in the log: {result['tracebacks_in_log']}")
    for line in result["described"]:
        print(f"  {line}")
    for name, row in result["actions"].items():
        print(f"{name:24} {row['count']:7,}  p50 {row['p50_ms']:8} ms  p99 {row['p99_ms']:8} ms")
    if result["memory"]:
        first, last = result["memory"][0]["mb"], result["memory"][-1]["mb"]
        print(f"memory {first} MB at first, {last} at the end, {result['memory_mb_per_hour_second_half']} MB an hour")
