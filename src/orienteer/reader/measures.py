"""How good a reader's scores are: AUC, calibration error, Brier score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def auc(scores: ArrayLike, truths: Sequence[bool] | ArrayLike) -> float:
    """The chance that a true passage scores above a false one; ties count a half."""
    scores, truths = np.asarray(scores, np.float64), np.asarray(truths, bool)
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    true, false = int(truths.sum()), int((~truths).sum())
    return float((ranks[truths].sum() - true * (true + 1) / 2) / (true * false))


def calibration_error(probabilities: ArrayLike, truths: Sequence[bool] | ArrayLike, bins: int = 15) -> float:
    """ECE: over bins of equal mass, the mean distance of what was said from what was true."""
    said, true = np.asarray(probabilities, np.float64), np.asarray(truths, np.float64)
    parts = np.array_split(np.argsort(said, kind="stable"), bins)
    return float(sum(len(p) * abs(said[p].mean() - true[p].mean()) for p in parts if len(p)) / len(said))


def brier(probabilities: ArrayLike, truths: Sequence[bool] | ArrayLike) -> float:
    """The mean squared distance of a probability from the truth."""
    return float(np.mean((np.asarray(probabilities, np.float64) - np.asarray(truths, np.float64)) ** 2))
