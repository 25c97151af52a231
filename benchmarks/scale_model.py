"""What scale.json says, as tables, and carried on to 13 million and a billion passages.

A cost that grows is a line, fixed + slope · millions of passages, by least squares over the sizes that were measured,
neither part below zero. A cost that does not grow is the mean over the sizes. Shards do their work at once, each that
of its share of the passages times what being a shard costs; what they find is then merged in one place:

    cost(N, S) = shard factor · line(N / S) + merge(S)      S > 1
    shard factor = parts / (shards · one index of a part's size)      all measured, CPU time of one thread
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Report = Mapping[str, Any]
STATE = 1490  # refinements of a state
PAPER, BILLION = 13_000_000, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A cost by the number of passages."""

    fixed: float
    per_million: float

    def at(self, passages: float) -> float:
        return self.fixed + self.per_million * passages / 1e6

    def reaches(self, cost: float) -> float:
        """The passages at which it costs so much."""
        return (cost - self.fixed) / self.per_million * 1e6 if self.per_million else float("inf")


def line(report: Report, name: str) -> Line:
    rows = report["sizes"]
    millions, costs = [row["passages"] / 1e6 for row in rows], [row[name] for row in rows]
    slope = max(0.0, float(np.polyfit(millions, costs, 1)[0])) if len(rows) > 1 else 0.0
    return Line(max(0.0, float(np.mean(costs)) - slope * float(np.mean(millions))), slope)


def level(report: Report, name: str) -> float:
    return float(np.mean([row[name] for row in report["sizes"]]))


def shard_factor(report: Report, kind: str) -> float:
    """How much more a shard spends on a query or refinement than an index of its size that is alone."""
    shards = report["shards"]
    return float(shards[f"parts_{kind}_cpu_us"] / (shards["shards"] * report["sizes"][0][f"{kind}_us"]))


def merging(report: Report, shards: int) -> float:
    """Microseconds a result list, from the two counts of shards that were measured."""
    (few, low), (many, high) = sorted(
        (int(name.split("_")[1]), cost) for name, cost in report["shards"].items() if name.startswith("merge_")
    )
    return float(low + (high - low) * (shards - few) / (many - few))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What so many passages cost in so many shards; times are those of one question or state that has all shards."""

    passages: int
    shards: int
    disk_gb: float
    lists_gb: float  # a shard
    build_h: float  # CPU hours of all shards
    build_own_gb: float  # a shard
    search_ms: float
    state_ms: float
    rocchio_engine_s: float
    rocchio_reader_s: float


def forecast(report: Report, passages: int, shards: int) -> Forecast:
    part = passages / shards

    def cost(kind: str) -> float:
        alone = line(report, f"{kind}_us").at(part)
        return alone if shards == 1 else shard_factor(report, kind) * alone + merging(report, shards)

    refine = cost("refine")
    return Forecast(
        passages,
        shards,
        disk_gb=shards * line(report, "disk_gb").at(part),
        lists_gb=line(report, "lists_gb").at(part),
        build_h=shards * line(report, "build_cpu_s").at(part) / 3600,
        build_own_gb=line(report, "build_own_gb").at(part),
        search_ms=cost("search") / 1e3,
        state_ms=STATE * refine / 1e3,
        rocchio_engine_s=line(report, "rocchio_engine_s").at(part) * refine / line(report, "refine_us").at(part),
        rocchio_reader_s=level(report, "rocchio_reader_s"),
    )


# Tables, in Markdown.

_SIZES = {
    "disk_gb": "index on disk, GB",
    "lists_gb": "without the stored text, GB",
    "build_cpu_s": "build, CPU s",
    "build_own_gb": "build, memory of its own, GB",
    "search_us": "search, µs",
    "refine_us": "refinement, µs",
    "read_ms": "reading a passage, ms",
    "rocchio_s": "Rocchio, a question, s",
    "rocchio_reader_s": "Rocchio: the reader's part, s",
    "rocchio_engine_s": "Rocchio: the engine's part, s",
    "rocchio_read": "Rocchio: passages read",
    "own_gb": "process, its own, GB",
    "resident_gb": "process, with mapped pages, GB",
}
_LINES = ("disk_gb", "lists_gb", "build_cpu_s", "build_own_gb", "search_us", "refine_us", "rocchio_engine_s")
_WORK = {"search": "search", "refine": "refine", "read": "read", "rocchio": "Rocchio"}
_FORECAST = {
    "shards": "shards",
    "disk_gb": "disk, GB",
    "lists_gb": "a shard without its text, GB",
    "build_h": "build, CPU hours",
    "build_own_gb": "memory to build a shard, GB",
    "search_ms": "search, ms",
    "state_ms": "state of 1,490 refinements, ms",
    "rocchio_engine_s": "Rocchio, a question: engine, s",
    "rocchio_reader_s": "and reader, s",
}


def tables(report: Report) -> str:
    """All tables, each under the mark that it has in docs/scale.md."""
    parts = {"sizes": _size_table, "lines": _line_table}
    if report["workers"]:
        parts["workers"] = _worker_table
    if "shards" in report:
        parts |= {"shards": _shard_table, "forecast": _forecast_table, "limits": _limit_table}
    return "\n\n".join(f"<!-- {name} -->\n{part(report)}" for name, part in parts.items()) + "\n"


def _size_table(report: Report) -> str:
    rows = report["sizes"]
    body = [[label, *(_short(row[name]) for row in rows)] for name, label in _SIZES.items()]
    return _markdown(["passages", *(f"{row['passages']:,}" for row in rows)], body)


def _shard_table(report: Report) -> str:
    shards = report["shards"]
    names = {"whole": "one index", "parts": f"{shards['shards']} shards, one process", "processes": "a process each"}
    columns = [(kind, clock) for kind in ("search", "search_many", "refine") for clock in ("cpu", "wall")]
    body = [
        [label, *(_short(shards[f"{name}_{kind}_{clock}_us"]) for kind, clock in columns)]
        for name, label in names.items()
    ]
    costs = [shard_factor(report, "search"), shard_factor(report, "refine"), merging(report, 4), merging(report, 77)]
    head = ["factor, search", "factor, refine", "merging a list of 4, µs", "merging a list of 77, µs"]
    times = _markdown(["µs", *(f"{kind}, {clock}" for kind, clock in columns)], body)
    return f"{times}\n\n{_markdown(head, [[_short(cost) for cost in costs]])}"


def _worker_table(report: Report) -> str:
    rows = report["workers"]
    one = rows[0]
    body = []
    for kind, label in _WORK.items():
        times = [_short(row[f"{kind}_wall_s"]) for row in rows]
        gains = [f"{one[f'{kind}_wall_s'] / row[f'{kind}_wall_s']:.2f}" for row in rows[1:]]
        more = [f"{row[f'{kind}_cpu_s'] / one[f'{kind}_cpu_s']:.2f}" for row in rows[1:]]
        body.append([label, *times, " / ".join(gains), " / ".join(more)])
    return _markdown(["workers", *(f"{row['workers']}, s" for row in rows), "faster by", "CPU time grows by"], body)


def _line_table(report: Report) -> str:
    found = {name: line(report, name) for name in _LINES}
    body = [[_SIZES[name], _short(each.fixed), _short(each.per_million)] for name, each in found.items()]
    return _markdown(["cost", "fixed", "and for each million passages"], body)


def _forecast_table(report: Report) -> str:
    cases = ((PAPER, 1), (PAPER, 4), (BILLION, 1), (BILLION, -(-BILLION // PAPER)))
    found = [forecast(report, *case) for case in cases]
    body = [[label, *(_short(getattr(each, name)) for each in found)] for name, label in _FORECAST.items()]
    return _markdown(["passages", *(f"{each.passages / 1e6:,.0f} M" for each in found)], body)


def _limit_table(report: Report) -> str:
    reader = level(report, "rocchio_reader_s")
    limits = {
        "a build needs 16 GB of its own": line(report, "build_own_gb").reaches(16),
        "an index without its text is 16 GB": line(report, "lists_gb").reaches(16),
        "an index without its text is 64 GB": line(report, "lists_gb").reaches(64),
        "the engine's part of Rocchio is as long as the reader's": line(report, "rocchio_engine_s").reaches(reader),
        "a state of 1,490 refinements takes a second": line(report, "refine_us").reaches(1e6 / STATE),
    }
    body = [[what, f"{at / 1e6:,.0f} M" if at < float("inf") else "never"] for what, at in limits.items()]
    return _markdown(["where", "passages"], body)


def _short(value: float) -> str:
    """Three digits, as a person would write them."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
