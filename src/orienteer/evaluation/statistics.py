"""What the figures are worth: intervals, tests against baselines, results by answer overlap, headroom closed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.evaluation.measures import QUALITY
from orienteer.evaluation.overlap import GROUPS
from orienteer.evaluation.significance import bootstrap, holm, permutation_test
from orienteer.evaluation.summary import Summary

BASELINE = "bm25+ps"
# Also as much plain reading as a session costs, and what an expert would try without learning.
BASELINES = re.compile(rf"{re.escape(BASELINE)}|bm25@\d+\+ps|prf-answer")
TESTED = ("NDCG@5", "Top-1", "Top-5", "EM-MR", "score")

Floats = NDArray[np.float64]
ByAgent = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An agent less a baseline, over the same questions, in percent points; `p_holm` is p corrected for its table."""

    agent: str
    baseline: str
    measure: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        interval = f"[{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.agent} - {self.baseline}, {self.measure}: {self.difference:+.2f} {interval}, p {self.p_holm:.3f}"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the figures are worth.

    intervals    of each mean, 95 %
    overlap      group → (how many questions, means); empty without a training set
    ceiling      the Rocchio agent that the headroom is measured by; empty where there is none
    headroom     agent → measure → the share of it that is closed
    """

    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    comparisons: Sequence[Comparison]
    overlap: Mapping[str, tuple[int, ByAgent]]
    ceiling: str
    headroom: ByAgent

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def statistics(summaries: Sequence[Summary], *, seed: int, overlaps: NDArray[np.bool_] | None = None) -> Statistics:
    """All of it; `overlaps` says for each question whether the training set has its answer."""
    judged = ~np.isnan(summaries[0].column("score"))
    tables = {s.name: np.stack([100 * s.column(m)[judged] for m in QUALITY], axis=1) for s in summaries}  # [N, M]
    if not judged.any():
        return Statistics({}, (), {}, "", {})
    names = [s.name for s in summaries]
    baselines = [name for name in names if BASELINES.fullmatch(name)] or names[:1]
    ceiling = ceiling_of(names)
    return Statistics(
        _intervals(tables, seed),
        [each for baseline in baselines for each in _comparisons(tables, baseline, seed)],
        {} if overlaps is None else _overlap(tables, overlaps[judged]),
        ceiling,
        headroom({s.name: s.means() for s in summaries}, ceiling),
    )


def ceiling_of(names: Sequence[str]) -> str:
    """The Rocchio agent that stands for the headroom: G4 where there is a choice; empty where there is none."""
    rocchio = [name for name in names if name.startswith("rocchio")]
    preferred = [name for name in ("rocchio-G4", "rocchio") if name in rocchio]
    return (preferred + rocchio + [""])[0]


def headroom(metrics: ByAgent, ceiling: str) -> dict[str, dict[str, float]]:
    """(x - bm25+ps) / (rocchio - bm25+ps) by agent and measure; absent where there is no room above the baseline."""
    if BASELINE not in metrics or ceiling not in metrics:
        return {}
    floor, top = metrics[BASELINE], metrics[ceiling]
    room = {m: top[m] - floor[m] for m in QUALITY if m != "reward" and m in top and m in floor}
    return {
        agent: {m: (values[m] - floor[m]) / room[m] for m in room if room[m] > 1e-9 and m in values}
        for agent, values in metrics.items()
        if agent not in (BASELINE, ceiling)
    }


def _intervals(tables: Mapping[str, Floats], seed: int) -> dict[str, dict[str, tuple[float, float]]]:
    together = bootstrap(np.concatenate(list(tables.values()), axis=1), seed=seed).tolist()
    found = iter(together)
    return {agent: {measure: _pair(next(found)) for measure in QUALITY} for agent in tables}


def paired(
    tables: Mapping[str, Floats], pairs: Sequence[tuple[str, str]], measures: Sequence[str], seed: int
) -> list[Comparison]:
    """Agents less baselines over columns [N, measures]; Holm's correction is over all of these together."""
    if not pairs:
        return []
    differences = np.concatenate([tables[agent] - tables[baseline] for agent, baseline in pairs], axis=1)
    bounds = bootstrap(differences, seed=seed)
    p_values = permutation_test(differences, seed=seed).tolist()
    rows = [(*pair, measure) for pair in pairs for measure in measures]
    return [
        Comparison(*row, float(mean), float(low), float(high), p, corrected)
        for row, mean, (low, high), p, corrected in zip(
            rows, differences.mean(axis=0), bounds, p_values, holm(p_values), strict=True
        )
    ]


def _comparisons(tables: Mapping[str, Floats], baseline: str, seed: int) -> list[Comparison]:
    """Every other agent against one baseline."""
    columns = [QUALITY.index(measure) for measure in TESTED]
    tested = {agent: table[:, columns] for agent, table in tables.items()}
    return paired(tested, [(agent, baseline) for agent in tables if agent != baseline], TESTED, seed)


def _overlap(
    tables: Mapping[str, Floats], overlaps: NDArray[np.bool_]
) -> dict[str, tuple[int, dict[str, dict[str, float]]]]:
    found = {}
    for group, rows in zip(GROUPS, (overlaps, ~overlaps), strict=True):
        means = {
            agent: dict(zip(QUALITY, table[rows].mean(axis=0).tolist(), strict=True))
            for agent, table in tables.items()
            if rows.any()
        }
        found[group] = (int(rows.sum()), means)
    return found


def _pair(bounds: Sequence[float]) -> tuple[float, float]:
    return bounds[0], bounds[1]
