"""Sessions as rows that a confidence is fitted and judged on: their features, and whether their answers were right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
