"""Threads that several callers share: whoever has a few rows for a model does not wait for another caller's hundred."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")

_SPACING = 0.1  # seconds; several times what a thread needs for a row


class FairThreads:
    """Runs rows of many callers, a thread a core.

    Rows run in the order in which they would have come, had each caller sent his first at once and one more every
    `_SPACING` seconds. So five rows overtake the rest of another caller's hundred, callers with many rows take turns,
    and nobody waits for ever: the hundredth row comes before whatever is sent ten seconds later.
    """

    def __init__(self, threads: int, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads, self._clock = ThreadPoolExecutor(threads, name), clock
        self._waiting: list[tuple[float, int, Callable[[], Any], Future[Any]]] = []  # a heap
        self._lock, self._numbers = threading.Lock(), itertools.count()

    def map(self, work: Callable[[Row], Result], rows: Sequence[Row]) -> Iterator[Result]:
        """work(row) for every row, in order. All rows are queued now; what is left when the caller stops is not run."""
        now = self._clock()
        futures = [self._submit(partial(work, row), now + place * _SPACING) for place, row in enumerate(rows)]
        return _results(futures)

    def _submit(self, work: Callable[[], Result], due: float) -> Future[Result]:
        future: Future[Result] = Future()
        with self._lock:
            heappush(self._waiting, (due, next(self._numbers), work, future))
        self._threads.submit(self._run_next)
        return future

    def _run_next(self) -> None:
        with self._lock:
            _, _, work, future = heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)


def _results(futures: Sequence[Future[Result]]) -> Iterator[Result]:
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
