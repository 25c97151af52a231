"""Counters for Prometheus, and the access log, which contains no query text unless that is switched on."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orienteer.engine.protocol import Engine
from orienteer.engine.request_counters import SECONDS, CountsRequests

log = logging.getLogger("orienteer.access")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
# Any token is a method of HTTP: those that no route has are counted together.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """One registry an app, so that several apps in one process count separately."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(RemoteRequests(engines))
        common: dict[str, Any] = {"registry": self.registry, "namespace": "orienteer"}
        self.requests = Counter("requests", "answered", ["method", "route", "status"], **common)
        self.seconds = Histogram("request_seconds", "from first byte to last", ["route"], buckets=_SECONDS, **common)
        self.steps = Counter("steps", "steps taken, by whom", ["by"], **common)
        self.step_seconds = Histogram("step_seconds", "of a step, waiting included", buckets=_SECONDS, **common)
        self.batch = Histogram("batch_size", "requests that shared a batch", ["work"], buckets=_SIZES, **common)
        self.running = Gauge("sessions_running", "agents at work", **common)
        self.in_memory = Gauge("sessions_in_memory", "sessions in memory", **common)
        self.session_bytes = Gauge("session_bytes", "bytes of the sessions in memory", **common)

    def text(self) -> bytes:
        return bytes(generate_latest(self.registry))


class RemoteRequests(Collector):
    """What the engines of this server send to search services, by index."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    def collect(self) -> Iterator[Metric]:
        counted = [
            (name, engine.counters.snapshot())
            for name, engine in self._engines.items()
            if isinstance(engine, CountsRequests)
        ]
        if not counted:
            return
        searches = CounterMetricFamily("orienteer_remote_searches", "sent to the service", labels=["index"])
        seconds = HistogramMetricFamily("orienteer_remote_request_seconds", "of a request, retries included",
                                        labels=["index"])  # fmt: skip
        for name, counters in counted:
            searches.add_metric([name], counters.searches)
            ends, total = [*map(str, SECONDS), "+Inf"], 0
            buckets = [(end, total := total + count) for end, count in zip(ends, counters.buckets, strict=True)]
            seconds.add_metric([name], buckets, counters.seconds)
        yield searches
        yield seconds
        for what, by in (("requests", "kind"), ("retries", "status"), ("failures", "kind")):
            family = CounterMetricFamily(f"orienteer_remote_{what}", f"by {by}", labels=["index", by])
            for name, counters in counted:
                for value, count in sorted(getattr(counters, what).items()):
                    family.add_metric([name, value], count)
            yield family


class MetricsMiddleware:
    """Counts and logs every request; outermost, so that rejected ones count too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log_queries: bool) -> None:
        self._app, self._metrics, self._log_queries = app, metrics, log_queries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, size = time.monotonic(), 500, 0

        async def count_and_send(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, count_and_send)
        finally:
            seconds = time.monotonic() - started
            # The route's pattern, not the path: an id must not make a series of its own.
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            self._write(scope, status, size, seconds)

    def _write(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        client = (scope.get("client") or ("-",))[0]
        text = scope["state"].get("query_text") if self._log_queries else None
        query = f" {text!r}" if text else ""
        # A path may have been sent as %0a or %1b: in the log it is neither a line of its own nor a terminal's command.
        path = scope["path"].encode("unicode_escape").decode()
        log.info('%s "%s %s" %d %d %.0fms%s', client, scope["method"], path, status, size, 1000 * seconds, query)
