"""Many clients at one time: no session is lost, nobody waits much longer than the others, memory stays."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from orienteer.models.model_folder import CONFIG
from orienteer.reader.folder import SHIPPED

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from tiny import save_tiny

import serve


@pytest.mark.long
def test_forty_clients_at_one_time_lose_no_session(tmp_path: Path) -> None:
    seen = serve.Seen(0.0, 0.0)
    with serve.serving(str(save_tiny(tmp_path / "reader"))) as (port, _):
        asyncio.run(serve.together(port, serve.all_questions()[:80], 40, "prf-answer", seen))
    assert seen.lost == []
    assert seen.whole == 80


@pytest.mark.slow
@pytest.mark.skipif(not (SHIPPED / CONFIG).exists(), reason="needs the shipped reader")
def test_two_hundred_sessions_for_two_minutes_lose_nothing_and_stay_in_memory() -> None:
    row = serve.run(200, 120.0, None)
    assert row["lost"] == 0
    assert row["p99_over_p50"] < 5
    assert row["memory_mb_end"] < 1.15 * row["memory_mb_quarter"]


@pytest.mark.slow
@pytest.mark.skipif(not (SHIPPED / CONFIG).exists(), reason="needs the shipped reader")
def test_thirty_two_clients_get_more_sessions_a_second_than_one() -> None:
    one, many = serve.compare([1, 32], 60.0, None)
    assert many["sessions_per_second"] > one["sessions_per_second"]
