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
    """The first agent of each group less each of its others, over the questions of a finished evaluation."""
    for measure in measures:
        if measure not in QUALITY:
            raise EvaluationError(f"{measure!r} is no measure of quality; expected some of {', '.join(QUALITY)}")
    for group in groups:
        if len(group) < 2:
            raise EvaluationError(f"{','.join(group)!r}: one agent; expected two or more, with commas between")
    if not measures or not groups:
        raise EvaluationError("nothing to compare; name two agents or more, and a measure or more")
    wanted = {agent for group in groups for agent in group}
    columns = _columns(folder, wanted, measures)
    pairs = dict.fromkeys((group[0], other) for group in groups for other in group[1:])
    return paired(columns, list(pairs), measures, seed)


def _columns(folder: Path, wanted: set[str], measures: Sequence[str]) -> dict[str, Floats]:
    """Agent → its values in percent [N, measures], of the questions that have answers."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((folder / "summaries").glob("*.json")):
        try:
            row = json.loads(file.read_bytes())
            found[row["agent"]] = row
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{file}: not a summary that can be read: {error!r}; evaluate again") from None
    if missing := sorted(wanted - set(found)):
        here = f"there are those of {', '.join(sorted(found))}" if found else "there is none; run `orienteer evaluate`"
        raise EvaluationError(f"{folder}: no summary of {', '.join(missing)}; {here}")
    rows = [found[agent] for agent in sorted(wanted)]
    for what in ("questions", "index", "reader"):
        if len({row[what] for row in rows}) > 1:
            raise EvaluationError(f"{folder}: its agents were judged with several {what}; evaluate them together")
    tables = {row["agent"]: np.array([row["values"][name] for name in measures], np.float64).T for row in rows}
    judged = ~np.isnan(np.concatenate(list(tables.values()), axis=1)).any(axis=1)
    if not judged.any():
        raise EvaluationError(f"{folder}: no question with answers; there is nothing to compare")
    return {agent: 100 * table[judged] for agent, table in tables.items()}
