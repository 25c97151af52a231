"""Compiled loops over the postings of a clause, for searches over sets of passages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import kernel

OUT, IN, EXCLUDED = 0, 1, 2  # marks of a passage: not matched, matched, kept out by an excluded term


@kernel
def count_marks(passages: NDArray[np.uint32], marks: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """counts [3]: how many of a clause's passages have each mark."""
    counts[:] = 0
    for at in range(passages.size):
        counts[marks[passages[at]]] += 1


@kernel
def add_marks(passages: NDArray[np.uint32], marks: NDArray[np.uint8]) -> None:
    """An optional clause: its passages are matched, if no term excludes them."""
    for at in range(passages.size):
        if marks[passages[at]] == 0:
            marks[passages[at]] = 1


@kernel
def exclude_marks(passages: NDArray[np.uint32], marks: NDArray[np.uint8]) -> None:
    for at in range(passages.size):
        marks[passages[at]] = 2


@kernel
def require_marks(passages: NDArray[np.uint32], marks: NDArray[np.uint8]) -> None:
    """A required clause: what was matched and is not among its passages is matched no longer."""
    at = 0
    for passage in range(marks.size):
        while at < passages.size and passages[at] < passage:
            at += 1
        if marks[passage] == 1 and not (at < passages.size and passages[at] == passage):
            marks[passage] = 0


@kernel
def count_before(
    scores: NDArray[np.float32], wanted: NDArray[np.float32], numbers: NDArray[np.int64], before: NDArray[np.int64]
) -> None:
    """before [wanted + 1]: how many passages rank before each wanted one and not before the one above it.

    `wanted` has the scores of the wanted passages in their order, `numbers` the passages; of equal scores the lower
    number ranks first.
    """
    if wanted.size == 0:
        return
    least = wanted[wanted.size - 1]
    for passage in range(scores.size):
        score = scores[passage]
        if score < least:
            continue
        low, high = 0, wanted.size
        while low < high:  # the first wanted passage that this one ranks before
            middle = (low + high) // 2
            if score > wanted[middle] or (score == wanted[middle] and passage < numbers[middle]):
                high = middle
            else:
                low = middle + 1
        before[low] += 1
