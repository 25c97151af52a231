"""The model of docs/scale.md: lines through what was measured, carried on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from scale_model import STATE, Line, forecast, line, merging, shard_factor, tables  # noqa: E402


def measured() -> dict[str, Any]:
    """As `bench scale` writes it, of an engine whose every cost is exactly a line."""
    lines = {
        "build_cpu_s": Line(1, 50), "build_own_gb": Line(0.2, 0.8), "disk_gb": Line(0.1, 1.5), "lists_gb": Line(0, 1),
        "search_us": Line(200, 600), "refine_us": Line(1, 4), "rocchio_engine_s": Line(0.02, 0.04),
    }  # fmt: skip
    level = {"read_ms": 30.0, "rocchio_s": 3.1, "rocchio_reader_s": 3.0, "rocchio_read": 80.0, "own_gb": 0.2}
    sizes = [
        {"passages": n, "resident_gb": 1.0} | level | {name: own.at(n) for name, own in lines.items()}
        for n in (100_000, 200_000, 400_000, 800_000)
    ]
    shards = {
        f"{name}_{kind}_{clock}_us": 8.0 for name in ("whole", "parts", "processes") for clock in ("cpu", "wall")
        for kind in ("search", "search_many", "refine")
    }  # fmt: skip
    shards |= {"shards": 4, "parts_search_cpu_us": 4 * 2 * 260.0, "parts_refine_cpu_us": 4 * 1.5 * 1.4}
    shards |= {"merge_4_us": 1.0, "merge_77_us": 74.0}
    workers = [
        {"workers": n, "own_gb": 0.2}
        | {f"{kind}_{clock}_s": 60 / n for kind in ("search", "refine", "read", "rocchio") for clock in ("cpu", "wall")}
        for n in (1, 2, 4)
    ]
    return {"processors": 2, "load": {}, "sizes": sizes, "shards": shards, "workers": workers}


def test_a_line_is_found_again_and_says_where_it_reaches_a_cost() -> None:
    found = line(measured(), "refine_us")
    assert (found.fixed, found.per_million) == pytest.approx((1, 4))
    assert found.reaches(41) == pytest.approx(10_000_000)
    assert Line(1, 0).reaches(2) == float("inf")


def test_a_cost_that_falls_with_the_passages_is_taken_for_level() -> None:
    report = measured()
    for row, cost in zip(report["sizes"], (4.0, 3.0, 3.0, 2.0), strict=True):
        row["refine_us"] = cost
    assert line(report, "refine_us") == Line(3.0, 0.0)


def test_one_index_costs_what_its_line_says_and_shards_their_share_their_factor_and_the_merging() -> None:
    report = measured()
    assert shard_factor(report, "search") == pytest.approx(2.0)
    assert shard_factor(report, "refine") == pytest.approx(1.5)
    assert merging(report, 40) == pytest.approx(37.0)
    whole = forecast(report, 13_000_000, 1)
    assert whole.state_ms == pytest.approx(STATE * 53 / 1e3)
    assert whole.rocchio_engine_s == pytest.approx(0.54)
    parts = forecast(report, 1_000_000_000, 77)
    assert parts.build_own_gb == pytest.approx(0.2 + 0.8 * 1000 / 77)
    assert parts.search_ms == pytest.approx((2.0 * (200 + 600 * 1000 / 77) + 74) / 1e3)
    assert parts.rocchio_reader_s == pytest.approx(3.0)


def test_every_table_of_the_page_is_printed_under_its_mark() -> None:
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    marks = [row for row in tables(measured()).splitlines() if row.startswith("<!--")]
    assert len(marks) == 6
    for mark in marks:
        assert page.count(mark) == 1
    for row in tables(measured()).splitlines():
        assert not row or row.startswith(("|", "<!--"))


def test_the_command_prints_what_was_measured_before_and_says_where_nothing_was(tmp_path: Path) -> None:
    from orienteer.cli import app

    (tmp_path / "scale.json").write_text(json.dumps(measured()))
    result = CliRunner().invoke(app, ["bench", "scale", "--out", str(tmp_path), "--table"], catch_exceptions=False)
    assert result.output == tables(measured())
    result = CliRunner().invoke(app, ["bench", "scale", "--out", str(tmp_path / "none"), "--table"])
    assert "no scale.json" in str(result.exception)
    result = CliRunner().invoke(app, ["bench", "scale", "--out", str(tmp_path)])
    assert "nothing to measure with" in str(result.exception)
