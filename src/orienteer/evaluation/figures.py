"""The paper's figures: their data (`figures.json`), and the drawings by matplotlib; same data, same bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.errors import MissingExtraError
from orienteer.evaluation.journal import EvaluationError
from orienteer.evaluation.summaries import ACTION_TYPES, LABELS, Summary

DRAWN = 8  # agents in a figure at most: those with the best score


def figure_data(summaries: Sequence[Summary]) -> dict[str, Any]:
    """By agent, for those that refine."""
    agents = {summary.name: _agent(summary) for summary in summaries if summary.refines}
    return {"depth_labels": list(LABELS), "agents": agents}


def _agent(summary: Summary) -> dict[str, Any]:
    sessions = sum(summary.lengths.values())
    taken = sum(summary.actions.values())
    lengths = np.repeat(list(summary.lengths), list(summary.lengths.values()))
    return {
        "sessions": sessions,
        "length_mean": float(lengths.mean()) if sessions else 0.0,
        "length_deviation": float(lengths.std()) if sessions else 0.0,
        "lengths": [summary.lengths[n] for n in range(summary.entry.settings.steps + 1)],
        "gains": [
            {"mean": float(np.mean(gains)), "low": low, "high": high, "sessions": len(gains)}
            for gains in summary.gains
            for low, high in [np.percentile(gains, (5, 95)).tolist()]
        ],
        "actions": {kind: summary.actions[kind] / taken for kind in _kinds(summary)} if taken else {},
        "depths": summary.depths,
        "final_depths": summary.final_depths,
        "by_step": summary.by_step(),
    }


def _kinds(summary: Summary) -> list[str]:
    """The paper's action types, and what else an agent may have used (a boost of another weight)."""
    return [*ACTION_TYPES, *sorted(set(summary.actions) - set(ACTION_TYPES))]


def drawn(data: dict[str, Any]) -> list[str]:
    """The agents that a figure shows: the best few by the final score, in that order; the first of equals."""

    def final_score(agent: str) -> float:
        scores = data["agents"][agent]["by_step"].get("score", [0.0])
        return float(scores[-1])

    return sorted(data["agents"], key=final_score, reverse=True)[:DRAWN]


Data = dict[str, Any]

LANDSCAPE_MEASURES = ("NDCG@5", "EM-MR", "Top-5")


def check_matplotlib() -> None:
    """Raise `MissingExtraError` where figures cannot be drawn; called before hours of work, not after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError("matplotlib", "eval") from None


def draw_all(data: Data, folder: Path) -> dict[str, Path]:
    """Every figure the numbers allow: name → file."""
    if not data["agents"]:
        return {}
    return {name: _drawn(draw, data, folder / f"{name}.svg") for name, (_, draw) in FIGURES.items()}


def _drawn(draw: Callable[[Any, Data], None], data: Data, file: Path) -> Path:
    figure = new_figure(7.0, 4.0)
    draw(figure, data)
    save(figure, file)
    return file


def new_figure(width: float, height: float) -> Any:
    """An empty drawing; sizes in inches."""
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="tight")


def save(figure: Any, file: Path) -> None:
    """As SVG with text as text; without a date and with fixed ids, so that the bytes depend on the numbers only."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "orienteer", "svg.fonttype": "none"}):
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    atomic_write(file, out.getvalue())


def _label(name: str) -> str:
    """A name as text: matplotlib would read what stands between two dollar signs as a formula."""
    return name.replace("$", r"\$")


def _whole_numbers(axes: Any) -> None:
    """Ticks at whole steps only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _lengths(figure: Any, data: Data) -> None:
    axes = figure.subplots()
    names = drawn(data)
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        counts = np.array(data["agents"][name]["lengths"])
        axes.bar(np.arange(len(counts)) + (i + 0.5) * width - 0.4, counts, width, label=_label(name))
    axes.set(xlabel="refinements in the session", ylabel="sessions")
    _whole_numbers(axes)
    axes.legend(fontsize="small")


def _gains(figure: Any, data: Data) -> None:
    axes = figure.subplots()
    for i, name in enumerate(drawn(data)):
        gains = data["agents"][name]["gains"]
        steps = range(1, len(gains) + 1)
        [line] = axes.plot(steps, [gain["mean"] for gain in gains], marker=".", label=_label(name))
        if i == 0:  # the spread of one agent is readable, of eight it is not
            low, high = ([gain[side] for gain in gains] for side in ("low", "high"))
            axes.fill_between(steps, low, high, alpha=0.15, color=line.get_color(), label=f"{_label(name)}, 5–95 %")
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.set(xlabel="step", ylabel="gain in S")
    _whole_numbers(axes)
    axes.legend(fontsize="small")


def _actions(figure: Any, data: Data) -> None:
    axes = figure.subplots()
    names = [name for name in drawn(data) if data["agents"][name]["actions"]]
    kinds = list(dict.fromkeys(kind for name in names for kind in data["agents"][name]["actions"]))
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        shares = [100 * data["agents"][name]["actions"].get(kind, 0.0) for kind in kinds]
        axes.bar(np.arange(len(kinds)) + (i + 0.5) * width - 0.4, shares, width, label=_label(name))
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(xlabel="action", ylabel="% of actions")
    if names:
        axes.legend(fontsize="small")


def _depths(figure: Any, data: Data) -> None:
    names, labels = drawn(data), data["depth_labels"]
    width = 0.8 / len(names)
    panels = (("depths", "passages seen"), ("final_depths", "the final five"))
    for axes, (key, title) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        for i, name in enumerate(names):
            counts = np.array(data["agents"][name][key], np.float64)
            shares = 100 * counts / max(1.0, counts.sum())
            axes.bar(np.arange(len(labels)) + (i + 0.5) * width - 0.4, shares, width, label=_label(name))
        axes.set_xticks(range(len(labels)), labels, rotation=60, fontsize="small")
        axes.set(title=title, xlabel="BM25 rank under q0", ylabel="% of passages")
    axes.legend(fontsize="small")


def _by_step(figure: Any, data: Data) -> None:
    measures = ("NDCG@5", "Top-1", "Top-5", "EM-MR")
    for axes, measure in zip(figure.subplots(2, 2, sharex=True).flat, measures, strict=True):
        for name in drawn(data):
            values = data["agents"][name]["by_step"].get(measure, [])
            axes.plot(range(len(values)), values, marker=".", markersize=3, label=_label(name))
        axes.set(title=measure, xlabel="refinements", ylabel="%")
        _whole_numbers(axes)
    axes.legend(fontsize="x-small")


FIGURES: Mapping[str, tuple[str, Callable[[Any, Data], None]]] = {
    "session-lengths": ("How many refinements the sessions have (`fig:rocchio_length`)", _lengths),
    "gain-per-step": ("Gain in S at each step (`fig:rocchio_score_gain_stepwise`)", _gains),
    "action-types": ("Which actions the agents take (`fig:action-types`)", _actions),
    "depth": ("How deep the passages lie under the question as asked (`fig:exploration`)", _depths),
    "measures-by-step": ("Measures against the number of refinements (`fig:e2e_metrics_length`)", _by_step),
}


def read_landscape(file: Path) -> list[dict[str, float]]:
    """JSON lines, each with `lambda1`, `lambda2` and the measures reached with them."""
    names = ("lambda1", "lambda2", *LANDSCAPE_MEASURES)
    rows: list[dict[str, float]] = []
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows.append({name: float(row[name]) for name in names})
    except OSError as error:
        raise EvaluationError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(
            f"{file}, line {len(rows) + 1}: {type(error).__name__}: {error}; "
            f"expected a JSON object with the numbers {', '.join(names)}"
        ) from None
    return rows


def draw_landscape(rows: Sequence[Mapping[str, float]], file: Path) -> None:
    """Each measure over λ1 and λ2, where λ1 + λ2 ≤ 1 (`fig:reward_mixing_landscapes`)."""
    if not rows:
        raise EvaluationError("a reward landscape of no points; expected rows with lambda1, lambda2 and measures")
    lambda1 = sorted({row["lambda1"] for row in rows})
    lambda2 = sorted({row["lambda2"] for row in rows})
    figure = new_figure(10.0, 3.4)
    for axes, measure in zip(figure.subplots(1, len(LANDSCAPE_MEASURES)), LANDSCAPE_MEASURES, strict=True):
        grid = np.full((len(lambda2), len(lambda1)), np.nan)
        for row in rows:
            grid[lambda2.index(row["lambda2"]), lambda1.index(row["lambda1"])] = row[measure]
        image = axes.imshow(grid, origin="lower", aspect="auto")
        axes.set_xticks(range(len(lambda1)), [f"{each:g}" for each in lambda1])
        axes.set_yticks(range(len(lambda2)), [f"{each:g}" for each in lambda2])
        axes.set(title=measure, xlabel="λ1", ylabel="λ2")
        figure.colorbar(image, ax=axes)
    save(figure, file)
