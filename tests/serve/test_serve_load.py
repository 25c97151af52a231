"""Many at one time: nobody is lost, nobody waits much longer than the others, memory stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orienteer.models.model_folder import CONFIG
from orienteer.reader.folder import SHIPPED

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from tiny import save_tiny

import serve


def test_forty_clients_for_some_seconds_lose_nothing(tmp_path: Path) -> None:
    row = serve.run(40, 4.0, str(save_tiny(tmp_path / "reader")))
    assert row["lost"] == 0
    assert row["sessions"] >= 40
    assert row["mean_batch"] > 4


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
