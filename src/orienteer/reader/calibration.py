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
    """Platt's fit: the a and b under which the truths are likeliest, by Newton's method.

    `weights` count passages more or less, as when a set was sampled. A tiny pull to (1, 0) keeps separable data
    finite.
    """
    x, y = np.asarray(logits, np.float64), np.asarray(truths, np.float64)
    w = np.ones_like(x) if weights is None else np.asarray(weights, np.float64)
    design = np.stack([x, np.ones_like(x)])  # [2, passages]
    prior, pull = np.array([1.0, 0.0]), 1e-3
    theta = prior
    for _ in range(100):
        p = Calibration(float(theta[0]), float(theta[1]))(x)
        gradient = design @ (w * (p - y)) + pull * (theta - prior)
        curvature = (design * (w * p * (1 - p))) @ design.T + pull * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        # A full Newton step can overshoot where the fit starts far off: at most two units at a time.
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        theta = theta - step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration(float(theta[0]), float(theta[1]))
