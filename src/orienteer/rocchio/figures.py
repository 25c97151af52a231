"""The paper's figures of Rocchio sessions, from their statistics."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orienteer.data.atomic import atomic_write
from orienteer.errors import MissingExtraError

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


def _lengths(axes: Any, stats: Stats) -> None:
    width = 0.8 / max(1, len(stats))
    for place, (grammar, row) in enumerate(stats.items()):
        total = max(1, sum(row["lengths"]))
        shares = [count / total for count in row["lengths"]]
        axes.bar([n + (place - (len(stats) - 1) / 2) * width for n in range(len(shares))], shares, width, label=grammar)
    axes.set(xlabel="refinements in a session", ylabel="share of sessions")
    axes.legend()


def _gains(axes: Any, stats: Stats) -> None:
    for grammar, row in stats.items():
        steps = range(1, len(row["gains"]) + 1)
        [line] = axes.plot(steps, [gain["mean"] for gain in row["gains"]], label=grammar)
        if grammar == "G4" or len(stats) == 1:
            low, high = ([gain[name] for gain in row["gains"]] for name in ("low", "high"))
            axes.fill_between(steps, low, high, alpha=0.2, color=line.get_color())
    axes.set(xlabel="step", ylabel="gain in S (5th to 95th percentile shaded)")
    axes.legend()


def _operators(axes: Any, stats: Stats) -> None:
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
    "rocchio-lengths": _lengths,
    "rocchio-gains": _gains,
    "rocchio-operators": _operators,
}
