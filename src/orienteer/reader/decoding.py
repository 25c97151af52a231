"""From the model's start and end logits to an answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_ANSWER_PIECES = 20  # longer answers are under 1 % of the gold ones


class PieceSpan(NamedTuple):
    """First and last wordpiece of the text, both inclusive, and the sum of their logits."""

    first: int
    last: int
    score: float


def best_span(
    start: NDArray[np.float32], end: NDArray[np.float32], longest: int = MAX_ANSWER_PIECES
) -> PieceSpan:
    """The pair first ≤ last < first + longest with the greatest sum; ties go to the earliest.

    start, end: [text pieces], at least one.
    """
    size = len(start)
    scores = start[:, None] + end[None, :]  # [first, last]
    allowed = np.triu(np.ones((size, size), bool)) & ~np.triu(np.ones((size, size), bool), longest)
    place = int(np.argmax(np.where(allowed, scores, -np.inf)))
    first, last = divmod(place, size)
    return PieceSpan(first, last, float(scores[first, last]))
