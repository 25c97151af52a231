"""/metrics tells what a server's engines send to search services."""

from __future__ import annotations

from orienteer.bundled import bundled_engine
from orienteer.engine.request_counters import Counters
from orienteer.serve.metrics import Metrics


class Remote:
    """An engine that sends requests to a service."""

    def __init__(self) -> None:
        self.counters = Counters()


def test_requests_of_a_remote_engine_are_told_by_index() -> None:
    remote = Remote()
    remote.counters.count_searches(64)
    remote.counters.count_request("_msearch", 0.03, failed=False)
    remote.counters.count_request("_mget", 40.0, failed=True)
    remote.counters.count_retry(429)
    lines = Metrics({"theirs": remote, "ours": bundled_engine()}).text().decode().splitlines()  # type: ignore[dict-item]
    for line in (
        'orienteer_remote_searches_total{index="theirs"} 64.0',
        'orienteer_remote_requests_total{index="theirs",kind="_msearch"} 1.0',
        'orienteer_remote_failures_total{index="theirs",kind="_mget"} 1.0',
        'orienteer_remote_retries_total{index="theirs",status="429"} 1.0',
        'orienteer_remote_request_seconds_bucket{index="theirs",le="0.05"} 1.0',
        'orienteer_remote_request_seconds_bucket{index="theirs",le="+Inf"} 2.0',
        'orienteer_remote_request_seconds_sum{index="theirs"} 40.03',
    ):
        assert line in lines
    assert not any('index="ours"' in line for line in lines)


def test_a_server_without_a_search_service_tells_nothing_of_one() -> None:
    assert "orienteer_remote" not in Metrics({"ours": bundled_engine()}).text().decode()
