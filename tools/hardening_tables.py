"""Writes the tables of docs/hardening.md from the files under results/: probes, mutants, crash points, soak, isolation.

    python tools/hardening_tables.py            # writes them
    python tools/hardening_tables.py --check    # says which differ, as `make results-check` does

A table stands between `<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "hardening.md"
RESULTS = ROOT / "results"
_MADE = re.compile(r"<!-- made: (\S+) -->\n.*?<!-- end -->", re.DOTALL)


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    names = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)])


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def probes() -> str:
    rows = []
    for row in _read("probes/probes.json"):
        file, _, test = row["test"].partition("::")
        rows.append(
            (
                row["probe"],
                f"`{file.removeprefix('tests/')}`: {test.removeprefix('test_').replace('_', ' ')}",
                row["without_the_fix"],
            )
        )
    return table("probe | test | without the fix", rows)


def mutants() -> str:
    rows = []
    for name, what in (
        ("index", "index, kernels with bounds checks"), ("index-deltas", "the same, with deltas among them"),
        ("models", "model folders"),
    ):  # fmt: skip
        found = _read(f"mutate/{name}.json")
        steps, failures = found["steps"], len(found["failures"])
        opened = steps["open: refused"], steps["open: went well"]
        rows.append((what, found["tried"], *opened, found["outcomes"], failures, f"`results/mutate/{name}.json`"))
    return table("what | mutants | refused at opening | opened | outcomes | failures | file", rows)


def crash_points() -> str:
    rows = []
    for name in ("session", "training", "index", "sync"):
        found = _read(f"crash-points/{name}.json")
        for row in found["points"]:
            counts = row["points"], row.get("old", 0), row.get("new", 0)
            lost = sum(line.startswith(f"{row['operation']}, {row['fault']} at") for line in found["failures"])
            rows.append((row["operation"], row["fault"], *counts, lost))
    total = ["all", "", *(sum(row[column] for row in rows) for column in range(2, 6))]
    return table("operation | fault | points | old state | new state | lost", [*rows, total])


def soak() -> str:
    found = _read("soak/soak.json")
    memory, half = found["memory"], found["memory_mb_second_half"]
    marks = [memory[round(part * (len(memory) - 1) / 8)] for part in range(9)]
    faults = ", ".join(f"{count} × {kind}" for kind, count in found["faults"].items()) or "none"
    unfinished = "" if found["done"] else " **It was not at its end.**"
    said = (
        f"{found['requests']:,} requests of {found['clients']} clients in {found['minutes']:.0f} minutes, one every "
        f"{found['pace_seconds']:g} seconds a client (`results/soak/soak.json`).{unfinished}\nFaults: {faults}; "
        f"{found['sessions_checked']:,} sessions were looked at again.\nIn the second half memory was between "
        f"{half[0]:.0f} and {half[1]:.0f} MB; its slope was {found['memory_mb_per_hour_second_half']:+.1f} MB an hour."
    )
    over_time = table(
        "minute | memory MB | sessions | MB of sessions | CPU seconds of the server",
        ((m["minute"], m["mb"], m["sessions"], m["session_mb"], m["cpu_seconds"]) for m in marks),
    )
    actions = sorted(found["actions"].items(), key=lambda item: -item[1]["count"])
    by_action = table(
        "action | count | p50 ms | p99 ms",
        ((name, row["count"], row["p50_ms"], row["p99_ms"]) for name, row in actions),
    )
    return f"{said}\n\n{over_time}\n\n{by_action}"


def isolation() -> str:
    runs = {
        "one loop": _read("isolation/before.json"), "three lanes": _read("isolation/three-lanes.json"),
        "three lanes, busy": _read("isolation/three-lanes-busy.json"),
        "fair turns": _read("isolation/fair-turns.json"), "now, busy": _read("isolation/now-busy.json"),
        "now, `muzero`": _read("isolation/now-muzero.json"),
    }  # fmt: skip
    rows = []
    for name, run in runs.items():
        for action, row in run["actions"].items():
            counts = f"{row['count_alone']:,} / {row['count_beside']:,}"
            keys = "alone_p50_ms", "beside_p50_ms", "alone_p99_ms", "beside_p99_ms"
            rows.append((name, action, counts, *(row[key] for key in keys), _ratio(row)))
    head = "server | action | count alone / beside | p50 alone | beside | p99 alone | beside | ratio of p99"
    health = [
        (
            name,
            run["health"]["count"],
            *(f"{run['health'][key]:.2f}" for key in ("p50_ms", "p99_ms", "server_cpu_ms")),
            run["heavy_sessions"],
        )
        for name, run in runs.items()
    ]
    head_of_health = "server | /health on one connection | p50 ms | p99 ms | server's CPU ms | heavy sessions done"
    return f"{table(head, rows)}\n\n{table(head_of_health, health)}"


def _ratio(row: dict[str, float]) -> str:
    ratio = f"{row['p99_ratio']:.2f}"
    shown = ratio if row["p99_ratio"] <= 3 else f"**{ratio}**"
    return f"{shown} [{row['p99_ratio_low']:.1f}, {row['p99_ratio_high']:.1f}]"


TABLES: dict[str, Callable[[], str]] = {
    "probes": probes, "mutants": mutants, "crash-points": crash_points, "soak": soak, "isolation": isolation,
}  # fmt: skip


def main() -> None:
    text = DOCUMENT.read_text()
    made = _MADE.sub(lambda found: f"<!-- made: {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end -->", text)
    if "--check" not in sys.argv:
        DOCUMENT.write_text(made)
    elif made != text:
        sys.exit(f"{DOCUMENT.name}: a table differs from its file under results/; run tools/hardening_tables.py")


if __name__ == "__main__":
    main()
