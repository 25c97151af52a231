"""Planned comparisons: the few pairs that a question is about, corrected for one another alone.

A report tests every agent against every baseline and pays for it: Holm's correction over some two hundred differences
hides what a handful would show. Here the family is what was asked for, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.evaluation.errors import EvaluationError
from orienteer.evaluation.measures import QUALITY
from orienteer.evaluation.statistics import TESTED, Comparison, Floats, paired


def compare(
    folder: Path, groups: Sequence[Sequence[str]], measures: Sequence[str] = TESTED, *, seed: int = 0
) -> list[Comparison]:
    """The first agent of each group minus each of its others, over the questions of a finished evaluation."""
    check_measures(measures)
    for group in groups:
        if len(group) < 2:
            raise EvaluationError(f"{','.join(group)!r}: one agent; expected two or more, with commas between")
    if not groups:
        raise EvaluationError("nothing to compare; name two agents or more")
    pairs = dict.fromkeys((group[0], other) for group in groups for other in group[1:])
    values = read_values(folder, list(dict.fromkeys(agent for group in groups for agent in group)), measures)
    tables = {agent: np.stack(list(columns.values()), axis=1) for agent, columns in values.items()}  # [N, measures]
    judged = ~np.isnan(np.concatenate(list(tables.values()), axis=1)).any(axis=1)
    if not judged.any():
        raise EvaluationError(f"{folder}: no question with answers; there is nothing to compare")
    return paired({agent: 100 * table[judged] for agent, table in tables.items()}, list(pairs), measures, seed)


def check_measures(measures: Sequence[str]) -> None:
    """Differences are of measures of quality."""
    if not measures:
        raise EvaluationError(f"nothing to compare: no measure; expected some of {', '.join(QUALITY)}")
    for measure in measures:
        if measure not in QUALITY:
            raise EvaluationError(f"{measure!r} is no measure of quality; expected some of {', '.join(QUALITY)}")


def read_values(folder: Path, agents: Sequence[str], measures: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """Agent → measure → one value a question [N], from the summaries in `folder`; NaN where it does not apply."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((folder / "summaries").glob("*.json")):
        try:
            row = json.loads(file.read_bytes())
            found[row["agent"]] = row
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{file}: not a summary that can be read: {error!r}; evaluate again") from None
    if missing := sorted(set(agents) - set(found)):
        here = f"there are those of {', '.join(sorted(found))}" if found else "there is none; run `orienteer evaluate`"
        raise EvaluationError(f"{folder}: no summary of {', '.join(missing)}; {here}")
    for what in ("questions", "index", "reader"):
        if len({found[agent][what] for agent in agents}) > 1:
            raise EvaluationError(f"{folder}: its agents were judged with several {what}; evaluate them together")
    return {agent: {name: np.array(found[agent]["values"][name], np.float64) for name in measures} for agent in agents}
