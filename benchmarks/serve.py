"""The workbench under load: many clients at one time, each with a session streamed to it, again and again.

    python benchmarks/serve.py --clients 200 --seconds 120    # lost sessions, p50 and p99 of a step, memory
    python benchmarks/serve.py --compare 1,32 --seconds 60    # sessions a second, by number of clients

The bundled corpus, 5 steps. A step's time is what the client waits between two events of its stream. The first step of
a session reads five passages, the others one or none, so clients who all begin at once wait longest for their first.
With --ramp they come one after the other, and what is measured begins when all are there.
Numbers of clients are compared on one server by turns, 32 sessions each, so that what else the machine does meets both.
Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

STEPS = 5
TURN = 32  # sessions of one number of clients before the other has its turn


@dataclass(slots=True)
class Seen:
    """What the clients saw."""

    start: float  # of what is measured
    end: float
    whole: int = 0
    in_time: int = 0
    lost: list[str] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB of the server, once a second


async def ask(port: int, question: str, agent: str, seen: Seen) -> None:
    """One session over its own connection, in bare HTTP: the client must not cost more than the server."""
    body = json.dumps({"question": question, "agent": agent, "steps": STEPS, "deadline": 600}).encode()
    head = (
        f"POST /api/sessions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    last, ended = time.monotonic(), False
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(head.encode() + body)
        async for line in reader:
            if line.startswith(b"event: step"):
                now = time.monotonic()
                if seen.start <= last and now <= seen.end:
                    seen.steps.append(now - last)
                last = now
            ended = ended or line.startswith(b"event: end")
        writer.close()
    except OSError as error:
        seen.lost.append(str(error))
        return
    if ended:
        seen.whole += 1
        seen.in_time += seen.start <= time.monotonic() <= seen.end
    else:
        seen.lost.append("the stream broke off")


async def load(
    port: int, pid: int, questions: Sequence[str], clients: int, seconds: float, agent: str, ramp: float
) -> Seen:
    """So many clients, each asking the next question as soon as its last is answered; they come over `ramp` seconds."""
    numbers, begun = count(), time.monotonic()
    seen = Seen(begun + ramp, begun + ramp + seconds)

    async def client(place: int) -> None:
        await asyncio.sleep(ramp * place / clients)
        while time.monotonic() < seen.end:
            number = next(numbers)
            # After all questions were asked once, a word more makes them new to the reader's cache.
            again = f" {number // len(questions)}" if number >= len(questions) else ""
            await ask(port, questions[number % len(questions)] + again, agent, seen)

    async def watch() -> None:
        while True:
            seen.memory.append(memory(pid))
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(client(place) for place in range(clients)))
    watching.cancel()
    return seen


def summary(seen: Seen, clients: int, port: int) -> dict[str, Any]:
    seconds = seen.end - seen.start
    cuts = quantiles(seen.steps, n=100) if len(seen.steps) > 1 else [0.0] * 99
    p50, p99 = median(seen.steps or [0.0]), cuts[98]
    calm = seen.memory[len(seen.memory) // 4 :]
    return {
        "clients": clients, "seconds": round(seconds, 1), "sessions": seen.whole, "lost": len(seen.lost),
        "sessions_per_second": round(seen.in_time / seconds, 2), "steps": len(seen.steps),
        "step_p50": round(p50, 3), "step_p99": round(p99, 3), "p99_over_p50": round(p99 / p50, 2) if p50 else None,
        "memory_mb_start": round(seen.memory[0]), "memory_mb_quarter": round(calm[0]), "memory_mb_end": round(calm[-1]),
        "mean_batch": mean_batch(port),
    }  # fmt: skip


def mean_batch(port: int) -> float:
    """Moves of sessions in one batch, over the server's life."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    total, batches = (
        float(re.search(rf'orienteer_batch_size_{name}{{work="moves"}} (\S+)', text)[1])  # type: ignore[index]
        for name in ("sum", "count")
    )
    return round(total / max(1.0, batches), 2)


def memory(pid: int) -> float:
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


@contextmanager
def serving(reader: str | None) -> Iterator[tuple[int, int]]:
    """A workbench of its own: its port and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("orienteer")
    with tempfile.TemporaryDirectory() as saved:
        command = [str(program), "serve", "--port", str(port), "--sessions", saved, "--deadline", "600"]
        log = subprocess.DEVNULL
        process = subprocess.Popen([*command, *(["--reader", reader] if reader else [])], stderr=log)
        try:
            while process.poll() is None:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/ready"):
                        break
                except (URLError, OSError):
                    time.sleep(0.2)
            else:
                sys.exit("the server did not start; run `orienteer serve` to see why")
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


def run(
    clients: int, seconds: float, reader: str | None, agent: str = "prf-answer", ramp: float = 0.0
) -> dict[str, Any]:
    """So many clients on a server of their own."""
    with serving(reader) as (port, pid):
        return summary(asyncio.run(load(port, pid, all_questions(), clients, seconds, agent, ramp)), clients, port)


def compare(
    clients: Sequence[int], seconds: float, reader: str | None, agent: str = "prf-answer"
) -> list[dict[str, Any]]:
    """Sessions a second for each number of clients, by turns; no question is asked twice in the same words."""
    done = dict.fromkeys(clients, 0)
    taken = dict.fromkeys(clients, 0.0)
    lost: list[str] = []
    questions = (f"{question} {turn or ''}".strip() for turn in count() for question in all_questions())
    with serving(reader) as (port, _):
        while sum(taken.values()) < seconds * len(clients):
            for number in clients:
                seen = Seen(0.0, 0.0)
                started = time.monotonic()
                asyncio.run(together(port, list(islice(questions, TURN)), number, agent, seen))
                taken[number] += time.monotonic() - started
                done[number] += seen.whole
                lost += seen.lost
    return [
        {"clients": number, "sessions": done[number], "lost": len(lost),
         "sessions_per_second": round(done[number] / taken[number], 2)}
        for number in clients
    ]  # fmt: skip


async def together(port: int, questions: list[str], clients: int, agent: str, seen: Seen) -> None:
    """All questions, so many at one time."""
    free = asyncio.Semaphore(clients)

    async def one(question: str) -> None:
        async with free:
            await ask(port, question, agent, seen)

    await asyncio.gather(*map(one, questions))


def all_questions() -> list[str]:
    from orienteer.bundled import bundled_questions

    return [each.question for each in (*bundled_questions("train"), *bundled_questions("test"))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--compare", help="numbers of clients to compare, as 1,32")
    options.add_argument("--seconds", type=float, default=120.0)
    options.add_argument("--reader", help="folder of a reader; none: the shipped one")
    options.add_argument("--agent", default="prf-answer")
    options.add_argument("--ramp", type=float, default=0.0, help="seconds over which the clients come; 0: all at once")
    given = options.parse_args()
    if given.compare:
        numbers = [int(each) for each in given.compare.split(",")]
        for row in compare(numbers, given.seconds, given.reader, given.agent):
            print(json.dumps(row))
        return
    print(json.dumps(run(given.clients, given.seconds, given.reader, given.agent, given.ramp)))


if __name__ == "__main__":
    main()
