"""What sessions look like: lengths, gains, operators, by grammar (`fig:rocchio_length` and its neighbours)."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.errors import MissingExtraError
from orienteer.query import G3, Refinement
from orienteer.rocchio.config import HEADROOM_SNIPPET, RocchioConfig, Variant
from orienteer.rocchio.sessions import SEARCHED, RocchioSession, State
from orienteer.session import Settings
from orienteer.session.score import ndcg


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
    by_grammar: dict[str, GrammarStats] = {}
    for session in sessions:
        by_grammar.setdefault(session.variant.grammar.name, GrammarStats()).add(session)
    return {name: by_grammar[name].as_dict() for name in sorted(by_grammar)}


def _spread(values: list[float]) -> dict[str, float]:
    low, high = np.percentile(values, (5, 95)).tolist()
    return {"mean": float(np.mean(values)), "low": low, "high": high, "sessions": len(values)}


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} if rows else {}


def _mean(values: list[int]) -> float:
    return float(np.mean(values)) if values else 0.0


STEP = 0.2
TERMS = 20  # the paper's N and M here, for speed


def landscape_variants(step: float = STEP) -> tuple[Variant, ...]:
    """G3 with every λ1, λ2 of the grid whose sum is at most 1."""
    count = round(1 / step)
    grid = [round(i * step, 10) for i in range(count + 1)]
    return tuple(Variant(G3, a, b) for i, a in enumerate(grid) for j, b in enumerate(grid) if i + j <= count)


def landscape_config(snippet: int = HEADROOM_SNIPPET) -> RocchioConfig:
    return RocchioConfig(n=TERMS, m=TERMS, settings=Settings(snippet=snippet), others=0)


def landscape(sessions: Iterable[RocchioSession]) -> list[dict[str, float]]:
    """A row for each λ1, λ2: the means of the report's measures over questions, in percent."""
    rows: dict[tuple[float, float], list[dict[str, float]]] = {}
    for session in sessions:
        values = rows.setdefault((session.variant.lambda1, session.variant.lambda2), [])
        if session.final is not None:
            values.append(measures(session.final))
    return [
        {"lambda1": a, "lambda2": b, **{name: float(np.mean([row[name] for row in values])) for name in values[0]}}
        for (a, b), values in sorted(rows.items())
        if values
    ]


def write_landscape(rows: Iterable[dict[str, float]], out: Path) -> None:
    """JSON lines, as `evaluate` draws them."""
    atomic_write(out, (json.dumps(row).encode() + b"\n" for row in rows))


Stats = Mapping[str, Mapping[str, Any]]  # by grammar


def draw(stats: Stats, folder: Path) -> list[Path]:
    """Lengths, gain at each step, steps by operator, as SVG; the bytes depend on the numbers only."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "eval") from None
    files = []
    for name, plot in _FIGURES.items():
        figure = Figure(figsize=(7.0, 4.0), layout="tight")
        plot(figure.subplots(), stats)
        with matplotlib.rc_context({"svg.hashsalt": "orienteer", "svg.fonttype": "none"}):
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
        files.append(folder / f"{name}.svg")
        atomic_write(files[-1], [drawn.getvalue()])
    return files


def _draw_lengths(axes: Any, stats: Stats) -> None:
    width = 0.8 / max(1, len(stats))
    for place, (grammar, row) in enumerate(stats.items()):
        total = max(1, sum(row["lengths"]))
        shares = [count / total for count in row["lengths"]]
        axes.bar([n + (place - (len(stats) - 1) / 2) * width for n in range(len(shares))], shares, width, label=grammar)
    axes.set(xlabel="refinements in a session", ylabel="share of sessions")
    axes.legend()


def _draw_gains(axes: Any, stats: Stats) -> None:
    for grammar, row in stats.items():
        steps = range(1, len(row["gains"]) + 1)
        [line] = axes.plot(steps, [gain["mean"] for gain in row["gains"]], label=grammar)
        if grammar == "G4" or len(stats) == 1:
            low, high = ([gain[name] for gain in row["gains"]] for name in ("low", "high"))
            axes.fill_between(steps, low, high, alpha=0.2, color=line.get_color())
    axes.set(xlabel="step", ylabel="gain in S (5th to 95th percentile shaded)")
    axes.legend()


def _draw_operators(axes: Any, stats: Stats) -> None:
    names = list(dict.fromkeys(name for row in stats.values() for name in row["operators"]))
    width = 0.8 / max(1, len(stats))
    for place, (grammar, row) in enumerate(stats.items()):
        total = max(1, sum(row["operators"].values()))
        shares = [row["operators"].get(name, 0) / total for name in names]
        axes.bar([n + (place - (len(stats) - 1) / 2) * width for n in range(len(names))], shares, width, label=grammar)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="operator", ylabel="share of steps")
    axes.legend()


_FIGURES: Mapping[str, Callable[[Any, Stats], None]] = {
    "rocchio-lengths": _draw_lengths,
    "rocchio-gains": _draw_gains,
    "rocchio-operators": _draw_operators,
}
