"""Means and paired bootstrap intervals of the orders in `dev.jsonl.zst`, in percent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import zstandard

from orienteer.evaluation.statistics import bootstrap

MEASURES = ("NDCG@5", "Top-1", "Top-5", "EM-MR")
ORDERS = ("ps", "agreement", "fused")
packed = (Path(__file__).parent / "dev.jsonl.zst").read_bytes()
rows = [json.loads(line) for line in zstandard.decompress(packed).splitlines()]
for agent in dict.fromkeys(row["agent"] for row in rows):
    tables = {order: np.array([row[order] for row in rows if row["agent"] == agent]) for order in ORDERS}
    # The questions stand in the file's order; agreement's weights were fitted on those after the first 300.
    for name, part in (("all", slice(None)), ("first 300", slice(300)), ("after them", slice(300, None))):
        for order in ORDERS:
            means = 100 * tables[order][part].mean(0)
            print(agent, name, order, *(f"{m} {value:.1f}" for m, value in zip(MEASURES, means, strict=True)))
        for other in ORDERS[:2]:
            differences = (tables["fused"] - tables[other])[part]
            told = zip(MEASURES, 100 * differences.mean(0), 100 * bootstrap(differences, seed=0), strict=True)
            print(
                agent,
                name,
                f"fused - {other}",
                *(f"{m} {d:+.1f} [{low:+.1f}, {high:+.1f}]" for m, d, (low, high) in told),
            )
