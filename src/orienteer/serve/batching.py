"""The worker loop: what several clients ask at one time is done in one call.

While one batch is worked on, requests gather; the next batch takes of them as many as it may cost. Nobody waits for a
batch to fill: alone, a request is a batch of one.

Who has waited longest for what it costs goes first: by waiting time over the root of the cost. By time alone, sessions
begun together would stay in step for ever, and all of them wait for all the dear first steps; by cost alone, dear ones
would never come. benchmarks/serve.py has the figures.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import sqrt
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

OnBatch = Callable[[int], None]


def together_or_alone(
    work: Callable[[Sequence[Job]], Sequence[Result]], jobs: Sequence[Job]
) -> list[Result | Exception]:
    """The results of all in one call; where that fails each alone, so that a bad one harms only itself."""
    try:
        results = list(work(jobs))
        if len(results) == len(jobs):
            return list(results)
        error: Exception = RuntimeError(f"{len(results)} results for {len(jobs)}")
    except Exception as raised:
        error = raised
    if len(jobs) == 1:
        return [error]
    return [result for job in jobs for result in together_or_alone(work, [job])]


@dataclass(slots=True)
class Waiting(Generic[Job, Result]):
    """A job that waits for its batch."""

    job: Job
    cost: float
    since: float = field(default_factory=time.monotonic)
    future: Future[Result] = field(default_factory=Future)

    def urgency(self, now: float) -> float:
        return (now - self.since) / sqrt(self.cost)


def most_urgent(waiting: Sequence[Waiting[Job, Result]], together: float, now: float) -> list[Waiting[Job, Result]]:
    """The next batch: it costs `together` at most, but has always one; of equally urgent ones the first go first."""
    batch: list[Waiting[Job, Result]] = []
    for each in sorted(waiting, key=lambda each: -each.urgency(now)):
        together -= each.cost
        if batch and together < 0:
            break
        batch.append(each)
    return batch


class Batcher(Generic[Job, Result]):
    """A thread that works through jobs, as many at once as wait and a batch may cost."""

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Result | Exception]],
        together: float,
        name: str,
        on_batch: OnBatch = lambda size: None,
        cost: Callable[[Job], float] = lambda job: 1.0,
    ) -> None:
        self._work, self._together, self._on_batch, self._cost = work, together, on_batch, cost
        self._waiting: list[Waiting[Job, Result]] = []
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Job) -> Result:
        """The job's result; one that is cancelled before its batch began is not done."""
        return await asyncio.wrap_future(self.submit(job))

    def submit(self, job: Job) -> Future[Result]:
        """A job that comes after `close` is cancelled at once."""
        waiting: Waiting[Job, Result] = Waiting(job, self._cost(job))
        with self._changed:
            if self._closing:
                waiting.future.cancel()
            else:
                self._waiting.append(waiting)
                self._changed.notify()
        return waiting.future

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """The thread ends after what it is doing; jobs that wait are cancelled."""
        with self._changed:
            self._closing = True
            left, self._waiting = self._waiting, []
            self._changed.notify()
        for each in left:
            each.future.cancel()
        self._thread.join(timeout=30)

    def _loop(self) -> None:
        while batch := self._next_batch():
            todo = [each for each in batch if each.future.set_running_or_notify_cancel()]
            if not todo:
                continue
            self._on_batch(len(todo))
            for each, result in zip(todo, together_or_alone(self._work, [each.job for each in todo]), strict=True):
                if isinstance(result, Exception):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)

    def _next_batch(self) -> list[Waiting[Job, Result]]:
        """Waits for a first job and takes the most urgent; empty when the loop is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            batch = most_urgent(self._waiting, self._together, time.monotonic())
            taken = set(map(id, batch))
            self._waiting = [each for each in self._waiting if id(each) not in taken]
            return batch
