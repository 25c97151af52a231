"""The reward landscape: what sessions reach when λ1 and λ2 of the score they raise are varied."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.query import G3
from orienteer.rocchio.config import HEADROOM_SNIPPET, Plan, Variant
from orienteer.rocchio.output import RocchioSession
from orienteer.rocchio.stats import measures
from orienteer.session import Settings

STEP = 0.2
TERMS = 20  # the paper's N and M here, for speed


def landscape_variants(step: float = STEP) -> tuple[Variant, ...]:
    """G3 with every λ1, λ2 of the grid whose sum is at most 1."""
    count = round(1 / step)
    grid = [round(i * step, 10) for i in range(count + 1)]
    return tuple(Variant(G3, a, b) for i, a in enumerate(grid) for j, b in enumerate(grid) if i + j <= count)


def landscape_plan(snippet: int = HEADROOM_SNIPPET) -> Plan:
    return Plan(n=TERMS, m=TERMS, settings=Settings(snippet=snippet), others=0)


def landscape(sessions: Iterable[RocchioSession]) -> list[dict[str, float]]:
    """A row for each λ1, λ2: the means of the report's measures over questions, in percent."""
    rows: dict[tuple[float, float], list[dict[str, float]]] = {}
    for session in sessions:
        own = rows.setdefault((session.variant.lambda1, session.variant.lambda2), [])
        if session.final is not None:
            own.append(measures(session.final))
    return [
        {"lambda1": a, "lambda2": b, **{name: float(np.mean([row[name] for row in own])) for name in own[0]}}
        for (a, b), own in sorted(rows.items())
        if own
    ]


def write_landscape(rows: Iterable[dict[str, float]], out: Path) -> None:
    """JSON lines, as `evaluate` draws them."""
    atomic_write(out, (json.dumps(row).encode() + b"\n" for row in rows))
