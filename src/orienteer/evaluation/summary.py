"""What is kept of an agent's sessions once they are read through: values by question, counts by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from orienteer.agents import ConfiguredAgent
from orienteer.evaluation.answer_em import EM_T5, Final, final_passages
from orienteer.evaluation.depth import LABELS, Ranks, bin_of
from orienteer.evaluation.measures import BY_STEP, MEASURES
from orienteer.query import BOOSTS, Refinement
from orienteer.session import Record, Undo

Floats = NDArray[np.float64]


def _boost(weight: float) -> str:
    return f"^{f'{weight:g}'.removeprefix('0')}"


# As the paper names them: by operator and field, a boost by its weight.
ACTION_TYPES = ("or", "+c", "+t", "-c", "-t", *map(_boost, BOOSTS), "undo")


def action_type(action: Refinement | Undo) -> str:
    if isinstance(action, Undo):
        return "undo"
    match action.op:
        case "or":
            return "or"
        case "^":
            return _boost(action.weight)
        case op:
            return op + action.field[0]


@dataclass(slots=True)
class Summary:
    """An agent's sessions in numbers; `add` takes them one by one, in the questions' order.

    values   measure → its value for each question, NaN where it does not apply
    gains    for each step from the first, S after it less S before, of the sessions that took it
    depths   how many distinct passages seen lie at each depth, and how many of the final five
    final    each question's final passages
    generated   whether the answer generator's answer is exact, for each question; empty where there is no generator
    """

    entry: ConfiguredAgent
    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    lengths: Counter[int] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    gains: list[list[float]] = field(default_factory=list)
    depths: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    final_depths: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    final: list[list[Final]] = field(default_factory=list)
    generated: list[float] = field(default_factory=list)
    dead_ends: int = 0
    judged: int = 0
    step_sums: Floats = field(init=False)  # [steps + 1, measures], over judged questions

    def __post_init__(self) -> None:
        self.step_sums = np.zeros((self.entry.settings.steps + 1, len(BY_STEP)))

    def add(self, record: Record, ranks: Ranks) -> None:
        for name, measure in MEASURES.items():
            value = measure.of(record)
            self.values[name].append(np.nan if value is None else value)
        self.final.append(final_passages(record))
        self.lengths[max(0, len(record.steps) - 1)] += 1
        self.endings[record.ended or "open"] += 1
        self.dead_ends += sum(not step.hits for step in record.steps[1:])
        self.actions.update(action_type(step.action) for step in record.steps if step.action is not None)
        for id in record.passages:
            self.depths[bin_of(ranks.get(id))] += 1
        for id in record.best:
            self.final_depths[bin_of(ranks.get(id))] += 1
        if record.question.answers:
            self.judged += 1
            self._add_steps(record)

    def _add_steps(self, record: Record) -> None:
        last = max(0, len(record.steps) - 1)
        for step in range(min(last + 1, len(self.step_sums))):
            row = [MEASURES[name].of(record, step) or 0.0 for name in BY_STEP]
            # A session that has ended keeps what it has: its last row counts for all steps after it.
            self.step_sums[step : None if step == last else step + 1] += row
        scores = [step.score.total for step in record.steps if step.score is not None]
        for step, (before, after) in enumerate(pairwise(scores)):
            while len(self.gains) <= step:
                self.gains.append([])
            self.gains[step].append(after - before)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def refines(self) -> bool:
        """Whether the agent may refine at all; without, there is nothing to say about steps."""
        return self.entry.settings.steps > 0

    def column(self, measure: str) -> Floats:
        return np.array(self.values[measure], np.float64)

    def means(self) -> dict[str, float]:
        """Each measure's mean over the questions it applies to, in percent where it is a share."""
        means = {}
        for name, measure in MEASURES.items():
            column = self.column(name)
            column = column[~np.isnan(column)]
            if len(column):
                means[name] = float(np.mean(column)) * (100 if measure.percent else 1)
        if self.generated and not np.isnan(self.generated).all():
            means[EM_T5] = 100 * float(np.nanmean(self.generated))
        return means

    def by_step(self) -> Mapping[str, list[float]]:
        """Each measure in percent after 0, 1, … steps; empty where no answer is known."""
        if not self.judged:
            return {}
        table = 100 * self.step_sums / self.judged
        return {name: table[:, i].tolist() for i, name in enumerate(BY_STEP)}
