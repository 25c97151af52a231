"""Retries with exponential backoff, and a circuit breaker for a service that is down."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from orienteer.engine.adapters.opensearch.clients import Failure
from orienteer.errors import CircuitOpenError

T = TypeVar("T")

FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0  # seconds
FAILURES, REST = 12, 20.0  # so many in a row open the circuit, for so many seconds
TOO_MANY_REQUESTS = 429


class CircuitBreaker:
    """Opens after `failures` in a row: no request is sent. After `rest` seconds one may try, and decides for all."""

    def __init__(self, failures: int = FAILURES, rest: float = REST, clock: Callable[[], float] = time.monotonic):
        self._failures, self._rest, self._clock = failures, rest, clock
        self._in_a_row = 0
        self._opened = 0.0
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            if self._in_a_row < self._failures:
                return
            left = self._opened + self._rest - self._clock()
            if left > 0:
                raise CircuitOpenError(
                    f"the search service failed {self._in_a_row} times in a row and is not asked "
                    f"for {left:.0f} s more; see that it runs, then try again"
                )
            self._opened = self._clock()

    def succeeded(self) -> None:
        with self._lock:
            self._in_a_row = 0

    def failed(self) -> None:
        with self._lock:
            self._in_a_row += 1
            if self._in_a_row >= self._failures:
                self._opened = self._clock()


class Retry:
    """Runs a request up to `attempts` times."""

    def __init__(
        self,
        attempts: int,
        breaker: CircuitBreaker,
        sleep: Callable[[float], None] = time.sleep,
        seed: int | None = None,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_retry: Callable[[Failure], None] = lambda failure: None,
    ):
        self._attempts, self._breaker, self._sleep = attempts, breaker, sleep
        self._deadline, self._clock, self._on_retry = deadline, clock, on_retry
        # Jitter, so that callers do not retry at the same time. No result depends on it.
        self._draw = random.Random(seed)

    def run(self, request: Callable[[], T]) -> T:
        """The result of `request`; its last `Failure` where none succeeds before attempts or time run out."""
        started = self._clock()
        for attempt in range(1, self._attempts + 1):
            self._breaker.enter()
            try:
                answer = request()
            except Failure as failure:
                if not failure.retryable or failure.status == TOO_MANY_REQUESTS:
                    self._breaker.succeeded()  # a service that refuses is alive
                else:
                    self._breaker.failed()
                if not failure.retryable or attempt == self._attempts:
                    raise
                wait = self._wait(attempt, failure.retry_after)
                if self._deadline is not None and self._clock() - started + wait > self._deadline:
                    raise
                self._on_retry(failure)
                self._sleep(wait)
            else:
                self._breaker.succeeded()
                return answer
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _wait(self, attempt: int, retry_after: float) -> float:
        doubled = FIRST_WAIT * 2.0 ** (attempt - 1) * self._draw.uniform(0.5, 1.0)
        return min(LONGEST_WAIT, max(doubled, retry_after))
