"""What a confidence is worth: does it tell right answers from wrong ones, and can the index say that it has none?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.evaluation.figures import new_figure, save
from orienteer.reader.answer_matching import exact_match, f1
from orienteer.session import Session
from orienteer.session.confidence import FEATURES, ConfidenceModel, features, fit, session_at

RIGHT = 0.5  # SQuAD's F1 with a gold answer, at least: "Unwin" for "Raymond Unwin" is right
_FLAGS = ("right", "exact", "holds", "removed", "final")
LOSS = 0.1  # of the right answers, the share that the threshold may decline

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Judgements:
    """Sessions as rows: their features, whether the answer was right, and whether the answers had been removed.

    `final`: the row is of a session's end, not of a step on the way.
    """

    questions: tuple[str, ...]
    rows: Floats
    right: Bools
    exact: Bools
    holds: Bools
    removed: Bools
    final: Bools

    def __len__(self) -> int:
        return len(self.questions)

    @classmethod
    def of(cls, sessions: Sequence[Session], removed: bool, steps: Sequence[int | None] = (None,)) -> Judgements:
        """A row for each session after each of these steps, None being its last; sessions that found nothing go."""
        kept = [
            (at, step is None) for each in sessions if each.best
            for step in steps
            if (at := each if step is None else session_at(each, min(step, len(each.steps) - 1))).best
        ]  # fmt: skip
        golds = [each.question.answers for each, _ in kept]
        answers = [each.answer for each, _ in kept]
        return cls(
            tuple(each.question.question for each, _ in kept),
            np.array([features(each) for each, _ in kept]).reshape(len(kept), len(FEATURES)),
            np.array([f1(answer, gold) >= RIGHT for answer, gold in zip(answers, golds, strict=True)], np.bool_),
            np.array([exact_match(answer, gold) for answer, gold in zip(answers, golds, strict=True)], np.bool_),
            np.array([bool(each.best[0].relevant) for each, _ in kept], np.bool_),
            np.full(len(kept), removed),
            np.array([final for _, final in kept], np.bool_),
        )

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """JSON, a row each."""
        for i, question in enumerate(self.questions):
            flags = {name: bool(getattr(self, name)[i]) for name in _FLAGS}
            yield {"question": question, "features": [round(each, 6) for each in self.rows[i].tolist()], **flags}

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Judgements:
        flags = (np.array([row[name] for row in rows], np.bool_) for name in _FLAGS)
        features = np.array([row["features"] for row in rows], np.float64).reshape(len(rows), len(FEATURES))
        return cls(tuple(row["question"] for row in rows), features, *flags)

    @classmethod
    def joined(cls, parts: Sequence[Judgements]) -> Judgements:
        questions = tuple(each for part in parts for each in part.questions)
        return cls(questions, *(np.concatenate([getattr(each, name) for each in parts]) for name in ("rows", *_FLAGS)))

    @property
    def last(self) -> Judgements:
        """The sessions at their ends."""
        chosen = np.flatnonzero(self.final)
        questions = tuple(self.questions[i] for i in chosen)
        return Judgements(questions, *(getattr(self, name)[chosen] for name in ("rows", *_FLAGS)))


def fit_confidence(judgements: Judgements, loss: float = LOSS) -> ConfidenceModel:
    """The model, with the threshold that declines `loss` of the right answers."""
    groups = list(zip(judgements.questions, judgements.removed.tolist(), strict=True))
    model = fit(judgements.rows, judgements.right.tolist(), groups)
    right = model.probabilities(judgements.rows)[judgements.right]
    threshold = float(np.quantile(right, loss)) if len(right) else 0.5
    return replace(model, threshold=threshold)


@dataclass(frozen=True, slots=True)
class ConfidenceReport:
    """Shares, from 0 to 1; `coverage` is the share of questions whose answer is given, the surest first.

    auroc               P(a right answer has more confidence than a wrong one)
    auroc_ps            the same of the first passage's PS, for comparison
    calibration_error   mean distance of confidence and share of right answers, over 15 bins of equal size
    precision           share of right answers at 25, 50, 75 and 100 % coverage
    risk_coverage       (coverage, share of wrong answers) along the way
    declined            share of the questions that are declined
    right_declined      share of the right answers that are declined
    precision_given     share of right answers among those given
    """

    questions: int
    right: float
    exact: float
    first_passage_holds: float
    auroc: float
    auroc_ps: float
    auroc_exact: float
    auroc_holds: float
    calibration_error: float
    precision: dict[str, float]
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
    order = np.argsort(-given, kind="stable")
    precisions = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    holding = np.cumsum(judgements.holds[order]) / np.arange(1, len(order) + 1)
    places = [max(0, round(len(order) * share) - 1) for share in np.arange(0.05, 1.001, 0.05)]
    quarters = (("25 %", 4), ("50 %", 9), ("75 %", 14), ("100 %", 19))
    return ConfidenceReport(
        questions=len(order), right=float(right.mean()), exact=float(judgements.exact.mean()),
        first_passage_holds=float(judgements.holds.mean()),
        auroc=auroc(given, right), auroc_ps=auroc(judgements.rows[:, 0], right),
        auroc_exact=auroc(given, judgements.exact), auroc_holds=auroc(given, judgements.holds),
        calibration_error=calibration_error(given, right),
        precision={name: float(precisions[places[i]]) for name, i in quarters},
        precision_holds={name: float(holding[places[i]]) for name, i in quarters},
        risk_coverage=tuple(((i + 1) / 20, 1 - float(precisions[place])) for i, place in enumerate(places)),
        declined=float(declined.mean()), right_declined=float(declined[right].mean()) if right.any() else 0.0,
        precision_given=float(right[~declined].mean()) if (~declined).any() else 0.0,
    )  # fmt: skip


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


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
