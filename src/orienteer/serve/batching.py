"""Worker loops: jobs that several clients submit at one time are done in one call.

While one batch runs, jobs queue up; the next batch takes as many of them as fit its cost limit. Nobody waits for a
batch to fill: a job that comes alone is a batch of one.

Priority is waiting time divided by the square root of the cost. By waiting time alone, sessions that started together
would stay in step, and all would wait for all the expensive first steps; by cost alone, expensive jobs would starve.
benchmarks/serve.py measures it.
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


def batch_or_one_by_one(
    work: Callable[[Sequence[Job]], Sequence[Result]], jobs: Sequence[Job]
) -> list[Result | Exception]:
    """The results of one call for all jobs; if it fails, of one call a job, so that a bad job fails alone."""
    try:
        results = list(work(jobs))
        if len(results) == len(jobs):
            return list(results)
        error: Exception = RuntimeError(f"{len(results)} results for {len(jobs)}")
    except Exception as raised:
        error = raised
    if len(jobs) == 1:
        return [error]
    return [result for job in jobs for result in batch_or_one_by_one(work, [job])]


@dataclass(slots=True)
class QueuedJob(Generic[Job, Result]):
    """A job in the queue; `since` is when it came."""

    job: Job
    cost: float
    since: float = field(default_factory=time.monotonic)
    future: Future[Result] = field(default_factory=Future)

    def priority(self, now: float) -> float:
        return (now - self.since) / sqrt(self.cost)


def next_batch(queue: Sequence[QueuedJob[Job, Result]], max_cost: float, now: float) -> list[QueuedJob[Job, Result]]:
    """The jobs of highest priority, at most `max_cost` together but at least one; ties go by order of arrival."""
    batch: list[QueuedJob[Job, Result]] = []
    for queued in sorted(queue, key=lambda queued: -queued.priority(now)):
        max_cost -= queued.cost
        if batch and max_cost < 0:
            break
        batch.append(queued)
    return batch


class Batcher(Generic[Job, Result]):
    """Threads that work through a queue of jobs, batch by batch; with a second one no job waits for a single batch."""

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Result | Exception]],
        max_cost: float,
        name: str,
        on_batch: OnBatch = lambda size: None,
        cost: Callable[[Job], float] = lambda job: 1.0,
        threads: int = 1,
    ) -> None:
        self._work, self._max_cost, self._on_batch, self._cost = work, max_cost, on_batch, cost
        self._queue: list[QueuedJob[Job, Result]] = []
        self._closing = False
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._loop, name=name, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def do(self, job: Job) -> Result:
        """The job's result; a job cancelled before its batch begins is not done."""
        return await asyncio.wrap_future(self.submit(job))

    def submit(self, job: Job) -> Future[Result]:
        """The future of a job; cancelled at once after `close`."""
        queued: QueuedJob[Job, Result] = QueuedJob(job, self._cost(job))
        with self._changed:
            if self._closing:
                queued.future.cancel()
            else:
                self._queue.append(queued)
                self._changed.notify()
        return queued.future

    @property
    def alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Ends the threads after their current batches and cancels the queued jobs."""
        with self._changed:
            self._closing = True
            left, self._queue = self._queue, []
            self._changed.notify_all()
        for queued in left:
            queued.future.cancel()
        for thread in self._threads:
            thread.join(timeout=30)

    def _loop(self) -> None:
        while batch := self._take_batch():
            started = [queued for queued in batch if queued.future.set_running_or_notify_cancel()]
            if not started:
                continue
            self._on_batch(len(started))
            results = batch_or_one_by_one(self._work, [queued.job for queued in started])
            for queued, result in zip(started, results, strict=True):
                if isinstance(result, Exception):
                    queued.future.set_exception(result)
                else:
                    queued.future.set_result(result)

    def _take_batch(self) -> list[QueuedJob[Job, Result]]:
        """Waits for a first job and takes the next batch from the queue; empty when the loop is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            batch = next_batch(self._queue, self._max_cost, time.monotonic())
            taken = set(map(id, batch))
            self._queue = [queued for queued in self._queue if id(queued) not in taken]
            return batch
