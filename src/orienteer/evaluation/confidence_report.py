"""What a confidence is worth: does it tell right answers from wrong ones, and can the index say that it has none?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.evaluation.confidence import Bools, Floats, Judgements
from orienteer.evaluation.figures import new_figure, save
from orienteer.evaluation.tables import table
from orienteer.session.confidence import ConfidenceModel

_DRAWS = 1000  # of the bootstrap
_SEED = 20
LOSSES = (0.02, 0.05, 0.1, 0.2)  # shares of the right answers that are declined
_QUARTERS = (("25 %", 4), ("50 %", 9), ("75 %", 14), ("100 %", 19))


@dataclass(frozen=True, slots=True)
class ConfidenceReport:
    """Shares, from 0 to 1; `coverage` is the share of questions whose answer is given, the surest first.

    stated              the mean probability
    auroc               P(a right answer has more confidence than a wrong one), with its 95 % bootstrap interval
    auroc_ps            the same of the first passage's PS, for comparison
    calibration_error   mean distance of confidence and share of right answers, over 15 bins of equal size
    precision           share of right answers at 25, 50, 75 and 100 % coverage; the interval is of 50 %
    risk_coverage       (coverage, share of wrong answers) along the way
    declined            share of the questions that are declined
    right_declined      share of the right answers that are declined
    precision_given     share of right answers among those given
    """

    questions: int
    right: float
    stated: float
    exact: float
    first_passage_holds: float
    auroc: float
    auroc_interval: tuple[float, float]
    auroc_ps: float
    auroc_exact: float
    auroc_holds: float
    calibration_error: float
    precision: dict[str, float]
    precision_interval: tuple[float, float]
    precision_holds: dict[str, float]
    risk_coverage: tuple[tuple[float, float], ...]
    declined: float
    right_declined: float
    precision_given: float

    def as_dict(self) -> dict[str, Any]:
        return {name: _rounded(value) for name, value in asdict(self).items()}


def report(model: ConfidenceModel, judgements: Judgements) -> ConfidenceReport:
    """How the model does on sessions that it was not fitted on."""
    given = model.probabilities(judgements.rows)
    right, declined = judgements.right, given < model.threshold
    precisions, holding = _precisions(given, right), _precisions(given, judgements.holds)
    return ConfidenceReport(
        questions=len(given), right=float(right.mean()), stated=float(given.mean()),
        exact=float(judgements.exact.mean()), first_passage_holds=float(judgements.holds.mean()),
        auroc=auroc(given, right), auroc_interval=_interval(auroc, given, right),
        auroc_ps=auroc(judgements.rows[:, 0], right),
        auroc_exact=auroc(given, judgements.exact), auroc_holds=auroc(given, judgements.holds),
        calibration_error=calibration_error(given, right),
        precision={name: precisions[i] for name, i in _QUARTERS},
        precision_interval=_interval(lambda some, truths: _precisions(some, truths)[9], given, right),
        precision_holds={name: holding[i] for name, i in _QUARTERS},
        risk_coverage=tuple(((i + 1) / 20, 1 - each) for i, each in enumerate(precisions)),
        declined=float(declined.mean()), right_declined=float(declined[right].mean()) if right.any() else 0.0,
        precision_given=float(right[~declined].mean()) if (~declined).any() else 0.0,
    )  # fmt: skip


def declined_at_loss(
    model: ConfidenceModel, answerable: Judgements, removed: Judgements, losses: Sequence[float] = LOSSES
) -> dict[float, float]:
    """Share of right answers that a threshold declines → share of the questions without an answer that it declines."""
    right = model.probabilities(answerable.rows)[answerable.right]
    without = model.probabilities(removed.rows)
    return {loss: float((without < np.quantile(right, loss)).mean()) for loss in losses} if len(right) else {}


def rows_of(reports: Mapping[str, ConfidenceReport]) -> list[list[str]]:
    """What each row tells, then its value in each report."""
    return [[label, *(value(each) for each in reports.values())] for label, value in _ROWS.items()]


def as_markdown(reports: Mapping[str, ConfidenceReport], at_loss: Mapping[float, float]) -> str:
    """A table with a column for each set, and what a lower or higher threshold would decline."""
    parts = ["# What the confidence is worth", "", table(["", *reports], rows_of(reports))]
    if at_loss:
        losses = [[f"{loss:.0%}", f"{declined:.1%}"] for loss, declined in at_loss.items()]
        parts += [table(["right answers declined", "questions without an answer declined"], losses)]
    return "\n".join([*parts, "![Wrong answers among those given](risk-coverage.svg)", ""])


def draw_risk_coverage(file: Path, reports: Mapping[str, ConfidenceReport]) -> None:
    """Wrong answers among those given, against the share of questions whose answer is given."""
    figure = new_figure(5, 3.2)
    axes = figure.subplots()
    for name, each in reports.items():
        if each.right:
            axes.plot(*zip(*((100 * c, 100 * r) for c, r in each.risk_coverage), strict=True), label=name)
    axes.set(xlabel="answers given, percent of the questions", ylabel="wrong, percent of those", xlim=(0, 100))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save(figure, file)


def auroc(scores: Floats, truths: Bools) -> float:
    """The area under the ROC curve, ties counted half; NaN where all are right or all wrong."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(truths.sum())
    negatives = len(truths) - positives
    if not positives or not negatives:
        return float("nan")
    return float((ranks[truths].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def calibration_error(given: Floats, right: Bools, bins: int = 15) -> float:
    """The mean distance of probability and share of right ones, over bins of equal size."""
    parts = np.array_split(np.argsort(given, kind="stable"), bins)
    return float(sum(len(p) * abs(given[p].mean() - right[p].mean()) for p in parts if len(p)) / len(given))


def _precisions(given: Floats, truths: Bools) -> list[float]:
    """The share of right ones among the surest 5, 10, … 100 %."""
    order = np.argsort(-given, kind="stable")
    running = np.cumsum(truths[order]) / np.arange(1, len(order) + 1)
    return [float(running[max(0, round(len(order) * share) - 1)]) for share in np.arange(0.05, 1.001, 0.05)]


def _interval(measure: Callable[[Floats, Bools], float], given: Floats, truths: Bools) -> tuple[float, float]:
    """95 %, by drawing sessions with replacement; NaN where no draw can be measured."""
    draw = np.random.default_rng(_SEED)
    chosen = draw.integers(0, len(given), (_DRAWS, len(given)))
    values = [value for each in chosen if isfinite(value := measure(given[each], truths[each]))]
    low, high = np.quantile(values, (0.025, 0.975)) if values else (nan, nan)
    return float(low), float(high)


def _share(value: float) -> str:
    return f"{100 * value:.1f} %" if isfinite(value) else "–"


def _ratio(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "–"


def _with_bounds(text: str, bounds: tuple[float, float], show: Callable[[float], str]) -> str:
    return f"{text} [{show(bounds[0])}, {show(bounds[1])}]" if isfinite(bounds[0]) else text


_ROWS: dict[str, Callable[[ConfidenceReport], str]] = {
    "questions": lambda each: f"{each.questions:,}",
    "answers that are right (F1 of 0.5 or more)": lambda each: _share(each.right),
    "probability stated, mean": lambda each: _share(each.stated),
    "AUROC of *right*": lambda each: _with_bounds(_ratio(each.auroc), each.auroc_interval, _ratio),
    "the same of PS alone": lambda each: _ratio(each.auroc_ps),
    "AUROC of *exact match*": lambda each: _ratio(each.auroc_exact),
    "AUROC of *the first passage holds the answer*": lambda each: _ratio(each.auroc_holds),
    "calibration error": lambda each: _ratio(each.calibration_error),
    "right among the surest 25 %": lambda each: _share(each.precision["25 %"]),
    "right among the surest 50 %":
        lambda each: _with_bounds(_share(each.precision["50 %"]), each.precision_interval, _share),
    "the first passage holds the answer, surest 50 %": lambda each: _share(each.precision_holds["50 %"]),
    "declined": lambda each: _share(each.declined),
    "right answers declined": lambda each: _share(each.right_declined),
    "right among those given": lambda each: _share(each.precision_given),
}  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
