"""The numbers behind the figures, written as `figures.json`, so that a figure can be drawn again without a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from orienteer.evaluation.depth import LABELS
from orienteer.evaluation.summary import ACTION_TYPES, Summary

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
