"""What sessions look like: lengths, gains, operators, by grammar (`fig:rocchio_length` and its neighbours)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from orienteer.query import Refinement
from orienteer.rocchio.output import SEARCHED, RocchioSession, State
from orienteer.session.score import ndcg

PAPER_LENGTH = (5.06, 3.28)  # mean and standard deviation of G4 on NQ Dev


def operator_name(refinement: Refinement) -> str:
    """As the paper names them: `or`, `+c`, `-t`, `^.1`, a boost by its weight whatever the field."""
    match refinement.op:
        case "or":
            return "or"
        case "^":
            return f"^{f'{refinement.weight:g}'.removeprefix('0')}"
        case op:
            return op + refinement.field[0]


@dataclass(slots=True)
class GrammarStats:
    """The sessions of one grammar, taken one by one."""

    ended: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    gains: list[list[float]] = field(default_factory=list)  # [step][session]
    operators: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    start: list[dict[str, float]] = field(default_factory=list)
    final: list[dict[str, float]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    not_rising: int = 0  # steps that do not raise the score strictly; there should be none

    def add(self, session: RocchioSession) -> None:
        self.ended[session.ended] += 1
        if session.start is not None and session.final is not None:
            self.start.append(measures(session.start))
            self.final.append(measures(session.final))
        if session.ended not in SEARCHED or session.start is None:
            return
        self.lengths.append(len(session.steps))
        self.read.append(session.read)
        totals = [session.start.score.total, *(step.state.score.total for step in session.steps)]
        for number, (before, after) in enumerate(pairwise(totals)):
            if number == len(self.gains):
                self.gains.append([])
            self.gains[number].append(after - before)
            self.not_rising += not after > before
        for step in session.steps:
            self.operators[operator_name(step.refinement)] += 1
            self.sources.update(step.sources)
            self.candidates.append(step.candidates)

    def as_dict(self) -> dict[str, Any]:
        lengths = np.array(self.lengths or [0])
        return {
            "sessions": sum(self.ended.values()),
            "ended": dict(self.ended.most_common()),
            "steps": int(lengths.sum()),
            "length_mean": float(lengths.mean()),
            "length_deviation": float(lengths.std()),
            "lengths": np.bincount(lengths).tolist() if self.lengths else [],
            "gains": [_spread(gains) for gains in self.gains],
            "operators": dict(self.operators.most_common()),
            "sources": dict(self.sources.most_common()),
            "start": _means(self.start),
            "final": _means(self.final),
            "passages_read": _mean(self.read),
            "candidates": _mean(self.candidates),
            "steps_not_rising": self.not_rising,
        }


def measures(state: State) -> dict[str, float]:
    """The report's measures of a state, in percent."""
    values = {
        "NDCG@5": ndcg(state.relevant), "Top-1": float(any(state.relevant[:1])), "Top-5": float(any(state.relevant)),
        "EM-MR": float(any(state.exact[:1])), "score": state.score.total,
    }  # fmt: skip
    return {name: 100 * value for name, value in values.items()}


def statistics(sessions: Iterable[RocchioSession]) -> dict[str, dict[str, Any]]:
    """Grammar → its statistics, in the grammars' order."""
    found: dict[str, GrammarStats] = {}
    for session in sessions:
        found.setdefault(session.variant.grammar.name, GrammarStats()).add(session)
    return {name: found[name].as_dict() for name in sorted(found)}


def _spread(values: list[float]) -> dict[str, float]:
    low, high = np.percentile(values, (5, 95)).tolist()
    return {"mean": float(np.mean(values)), "low": low, "high": high, "sessions": len(values)}


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} if rows else {}


def _mean(values: list[int]) -> float:
    return float(np.mean(values)) if values else 0.0
