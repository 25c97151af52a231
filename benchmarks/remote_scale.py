"""What sessions over a cluster cost at 13 million, a billion and 100 billion passages, from measured CPU times.

python benchmarks/remote_scale.py results/remote/sessions-5-880k.jsonl

The file is of `orienteer bench remote-sessions`. A search costs the nodes a part for each million passages, taken to be
the embedded engine's (docs/scale.md; an upper bound, since long lists are not walked to their end), and what is left of
the measured cost for each shard. All else is arithmetic from the constants below.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

MILLIONS, SHARDS = 0.879684, 3  # that the file was measured with
A_MILLION = 0.671  # CPU milliseconds of a search
DISK_GB = 0.777  # a million passages, stored text included: 683 MB of 879,684
SHARD_MILLIONS = 25  # passages of a shard at most: some 20 GB
CORES, CACHE_GB = 16, 32  # of a node of 64 GB, half of it heap
CORE_HOUR = 0.05  # dollars, memory included; put in your own
SIZES = {"13 M": 13, "1,000 M": 1_000, "100,000 M": 100_000}
MERGE_US = 1.0  # of one shard's part of an answer, where the answers meet


@dataclass(frozen=True, slots=True)
class Search:
    """CPU milliseconds of one search on all nodes together."""

    a_shard: float
    a_million: float

    def at(self, millions: float, shards: int) -> float:
        return shards * (self.a_shard + MERGE_US / 1000) + self.a_million * millions


def search_of(row: Mapping[str, Any]) -> Search:
    cost = 1000 * row["p50_cpu_of_nodes"] / row["searches_a_session"]
    return Search((cost - A_MILLION * MILLIONS) / SHARDS, A_MILLION)


def rows_of(file: Path) -> dict[str, Any]:
    return {row["engine"]: row for row in map(json.loads, file.read_text("utf-8").splitlines())}


def main(file: Path) -> None:
    measured = rows_of(file)
    search = search_of(measured["service"])
    print(f"a search: {search.a_shard:.2f} ms of CPU a shard and {search.a_million:.2f} ms a million passages\n")
    print("| passages | " + " | ".join(SIZES) + " |\n| --- |" + " --- |" * len(SIZES))
    shards = {name: max(SHARDS, ceil(millions / SHARD_MILLIONS)) for name, millions in SIZES.items()}
    nodes = {name: max(3, ceil(millions * DISK_GB / CACHE_GB)) for name, millions in SIZES.items()}
    cost = {name: search.at(millions, shards[name]) for name, millions in SIZES.items()}
    table = {
        "shards": shards,
        "disk of one copy, GB": {name: millions * DISK_GB for name, millions in SIZES.items()},
        f"nodes of {CORES} cores that keep it in memory": nodes,
        "a search, ms of CPU": cost,
        "and of waiting, at least, ms": {name: cost[name] / shards[name] for name in SIZES},
    }
    for way in ("service", "pool", "mirror"):
        searches = measured[way]["searches_a_session"]
        seconds = {name: searches * cost[name] / 1000 for name in SIZES}
        table[f"`{way}`: searches a session"] = dict.fromkeys(SIZES, searches)
        table[f"`{way}`: sessions a second"] = {name: nodes[name] * CORES / seconds[name] for name in SIZES}
        table[f"`{way}`: dollars a thousand sessions"] = {
            name: seconds[name] / 3600 * CORE_HOUR * 1000 for name in SIZES
        }
    for name, values in table.items():
        print(f"| {name} | " + " | ".join(f"{value:,.{_digits(value)}f}" for value in values.values()) + " |")


def _digits(value: float) -> int:
    return 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2 if value >= 0.1 else 4


if __name__ == "__main__":
    main(Path(sys.argv[1]))
