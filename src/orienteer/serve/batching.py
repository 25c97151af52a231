"""The worker loop: what several clients ask at one time is done in one call.

While one batch is worked on, requests gather; the next batch takes them all, in the order in which they came. Nobody
waits for a batch to fill: alone, a request is a batch of one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
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


class Batcher(Generic[Job, Result]):
    """A thread that works through jobs, as many at once as wait and at most `together`."""

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Result | Exception]],
        together: int,
        name: str,
        on_batch: OnBatch = lambda size: None,
    ) -> None:
        self._work, self._together, self._on_batch = work, together, on_batch
        self._waiting: queue.SimpleQueue[tuple[Job, Future[Result]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Job) -> Result:
        """The job's result; one that is cancelled before its batch began is not done."""
        return await asyncio.wrap_future(self.submit(job))

    def submit(self, job: Job) -> Future[Result]:
        future: Future[Result] = Future()
        self._waiting.put((job, future))
        return future

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """The thread ends after what it is doing; jobs that wait are cancelled."""
        self._waiting.put(None)
        self._thread.join(timeout=30)

    def _loop(self) -> None:
        while batch := self._next_batch():
            todo = [(job, future) for job, future in batch if future.set_running_or_notify_cancel()]
            if not todo:
                continue
            self._on_batch(len(todo))
            for (_, future), result in zip(todo, together_or_alone(self._work, [job for job, _ in todo]), strict=True):
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._cancel_the_rest()

    def _next_batch(self) -> list[tuple[Job, Future[Result]]]:
        """Waits for a first job and takes what came with it; empty when the loop is to end."""
        first = self._waiting.get()
        batch = [] if first is None else [first]
        while batch and len(batch) < self._together:
            try:
                each = self._waiting.get_nowait()
            except queue.Empty:
                break
            if each is None:
                self._waiting.put(None)
                break
            batch.append(each)
        return batch

    def _cancel_the_rest(self) -> None:
        while True:
            try:
                each = self._waiting.get_nowait()
            except queue.Empty:
                return
            if each is not None:
                each[1].cancel()
