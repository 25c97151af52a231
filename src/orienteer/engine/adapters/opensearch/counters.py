"""What was sent to a service and what came of it: for Prometheus, `trial` and budgets."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

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

    def count_searches(self, number: int) -> int:
        """How many there are now."""
        with self._lock:
            self.searches += number
            return self.searches

    def count_request(self, kind: str, seconds: float, *, failed: bool) -> None:
        with self._lock:
            self.requests[kind] += 1
            self.failures[kind] += failed
            self.seconds += seconds
            self.buckets[sum(seconds > bound for bound in SECONDS)] += 1

    def count_retry(self, status: int | None) -> None:
        with self._lock:
            self.retries[str(status) if status else "connection"] += 1

    def prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The counts in Prometheus's text format."""
        own = dict(labels or {})
        with self._lock:
            lines = ["# TYPE orienteer_remote_searches_total counter"]
            lines.append(f"orienteer_remote_searches_total{_labels(own)} {self.searches}")
            for name, tally, by in (
                ("requests", self.requests, "kind"), ("retries", self.retries, "status"),
                ("failures", self.failures, "kind"),
            ):  # fmt: skip
                lines.append(f"# TYPE orienteer_remote_{name}_total counter")
                rows = sorted(tally.items())
                lines += [f"orienteer_remote_{name}_total{_labels({**own, by: key})} {count}" for key, count in rows]
            lines.append("# TYPE orienteer_remote_request_seconds histogram")
            total = 0
            for bound, count in zip((*map(str, SECONDS), "+Inf"), self.buckets, strict=True):
                total += count
                lines.append(f"orienteer_remote_request_seconds_bucket{_labels({**own, 'le': bound})} {total}")
            lines.append(f"orienteer_remote_request_seconds_sum{_labels(own)} {self.seconds:.6f}")
            lines.append(f"orienteer_remote_request_seconds_count{_labels(own)} {total}")
        return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in labels.items()}
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
