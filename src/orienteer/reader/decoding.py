"""From the model's logits to an answer, and from an answer to the snippet that an agent sees."""

from __future__ import annotations

import re
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
    start: NDArray[np.float32],
    end: NDArray[np.float32],
    continues: NDArray[np.bool_] | None = None,
    longest: int = MAX_ANSWER_PIECES,
) -> PieceSpan:
    """The pair first ≤ last < first + longest with the greatest sum; ties go to the earliest.

    start, end: [text pieces], at least one. `continues` marks pieces that go on with the word before them: an
    answer is made of whole words.
    """
    if continues is not None and continues.any():
        firsts = np.where(continues, -np.inf, start)
        lasts = np.where(np.append(continues[1:], False), -np.inf, end)
        found = best_span(firsts, lasts, None, longest)
        # A word of more pieces than an answer may have leaves no whole words to choose from.
        return found if np.isfinite(found.score) else best_span(start, end, None, longest)
    size = len(start)
    best = PieceSpan(0, 0, -np.inf)
    for more in range(min(longest, size)):
        sums = start[: size - more] + end[more:]
        first = int(np.argmax(sums))
        if sums[first] > best.score or (sums[first] == best.score and first < best.first):
            best = PieceSpan(first, first + more, float(sums[first]))
    return best


def span_log_probability(start: NDArray[np.float32], end: NDArray[np.float32], span: PieceSpan) -> float:
    """log P(first) + log P(last), each by softmax over the text's pieces: how sure the model is of this place."""
    return float(start[span.first] - np.logaddexp.reduce(start) + end[span.last] - np.logaddexp.reduce(end))


_WORD = re.compile(r"\S+")


def snippet(text: str, start: int, end: int, words: int) -> str:
    """At most `words` white-space words of the text, centred on the answer text[start:end].

    The words that hold the answer come first; what is left goes half to either side, and what one side cannot
    use to the other. An answer longer than `words` is cut at its end. Without an answer: the first words.
    """
    if words <= 0:
        return ""
    places = [match.span() for match in _WORD.finditer(text)]
    touched = [i for i, (low, high) in enumerate(places) if low < end and high > start]
    first, last = (touched[0], touched[-1] + 1) if touched else (0, 0)
    last = min(last, first + words)
    spare = words - (last - first)
    before, after = first, len(places) - last
    left = min(before, max(spare // 2, spare - after))
    right = min(after, spare - left)
    return " ".join(text[low:high] for low, high in places[first - left : last + right])
