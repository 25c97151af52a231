"""What an engine sent to a service and what came of it: for Prometheus and `trial`."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

# Upper bounds of a histogram, seconds.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(slots=True)
class Counters:
    """Counts of one service. Safe to share between threads."""

    requests: Tally[str] = field(default_factory=Tally)  # by kind: _msearch, _mget, …
    retries: Tally[str] = field(default_factory=Tally)  # by the status that came, or "connection"
    failures: Tally[str] = field(default_factory=Tally)  # requests given up, by kind
    searches: int = 0
    seconds: float = 0.0  # spent waiting, summed over requests
    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_searches(self, number: int) -> None:
        with self._lock:
            self.searches += number

    def count_request(self, kind: str, seconds: float, *, failed: bool) -> None:
        with self._lock:
            self.requests[kind] += 1
            self.failures[kind] += failed
            self.seconds += seconds
            self.buckets[sum(seconds > bound for bound in SECONDS)] += 1

    def count_retry(self, status: int | None) -> None:
        with self._lock:
            self.retries[str(status) if status else "connection"] += 1

    def snapshot(self) -> Counters:
        """A copy that no other thread changes."""
        with self._lock:
            return replace(
                self, requests=self.requests.copy(), retries=self.retries.copy(), failures=self.failures.copy(),
                buckets=list(self.buckets), _lock=threading.Lock(),
            )  # fmt: skip


@runtime_checkable
class CountsRequests(Protocol):
    """An engine that sends requests to a service, and counts them."""

    @property
    def counters(self) -> Counters: ...
