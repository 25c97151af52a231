"""PS = sigmoid(a·logit + b): the selection logit as a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Calibration(NamedTuple):
    a: float = 1.0
    b: float = 0.0

    def __call__(self, logits: ArrayLike) -> NDArray[np.float64]:
        z = self.a * np.asarray(logits, np.float64) + self.b
        return np.asarray(0.5 * (1 + np.tanh(z / 2)))  # sigmoid, without overflow


def fit(logits: ArrayLike, truths: Sequence[bool] | ArrayLike, weights: ArrayLike | None = None) -> Calibration:
    """Platt's fit: the a and b under which the truths are likeliest.

    `weights` count passages more or less, as when a set was sampled.
    """
    [a], b = fit_linear(np.asarray(logits, np.float64)[:, None], truths, weights)
    return Calibration(float(a), b)


def fit_linear(
    features: ArrayLike, truths: Sequence[bool] | ArrayLike, weights: ArrayLike | None = None
) -> tuple[NDArray[np.float64], float]:
    """Logistic regression by Newton's method: a factor for each column of features [passages, k], and b.

    A tiny pull to (1, 0, …) keeps separable data finite.
    """
    x, y = np.asarray(features, np.float64), np.asarray(truths, np.float64)
    w = np.ones_like(y) if weights is None else np.asarray(weights, np.float64)
    design = np.concatenate([x, np.ones((len(x), 1))], axis=1).T  # [k + 1, passages]
    prior, pull = np.eye(len(design))[0], 1e-3
    theta = prior
    for _ in range(100):
        p = Calibration(1.0, 0.0)(theta @ design)
        gradient = design @ (w * (p - y)) + pull * (theta - prior)
        curvature = (design * (w * p * (1 - p))) @ design.T + pull * np.eye(len(design))
        step = np.linalg.solve(curvature, gradient)
        # A full Newton step can overshoot where the fit starts far off: at most two units at a time.
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        theta = theta - step
        if np.abs(step).max() < 1e-9:
            break
    return theta[:-1], float(theta[-1])
