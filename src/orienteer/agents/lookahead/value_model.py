"""Predicts the expected gain of reading a passage, from features that cost no reading; no torch.

A small network predicts how likely a passage holds the answer, and the PS that the reader would give it if it does and
if it does not. From that follows the rank it would take among the best five, and what this does to their NDCG and to
the chance that one of them holds the answer. Passages that give or hold the same answer are right or wrong together:
one more passage with a known answer raises NDCG, but hardly the chance to have the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import Decoding
from orienteer.agents.lookahead.candidates import Candidates
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.models.checks import Shapes, check_shapes, linear_shapes
from orienteer.models.layers import Float32s, linear, load_layers, relu
from orienteer.session.score import K, weights

Float64s = NDArray[np.float64]

PREFIX = "weigher."  # of its tensors' names in a model folder
LAYERS = ("first", "second", "told")  # as model folders name them
CLIP = 6.0  # standardised features are clipped to this
# Fitted: docs/lab-book/pointer.md.
_P_RIGHT = 0.9  # P(a best passage holds the answer) is about this part of its PS
_SAME_ANSWER = 0.2  # a passage with an answer that is known already is mostly right when that one is
_WIN_BASE, _WIN_SCALE, _LOSS_SCALE = 0.1, 0.65, 0.65
_WEIGHTS = np.array(weights())


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of passages: P(holds the answer), and the expected logit of PS if it does not and if it does, with its spread.

    right [passages]; logit [passages, 2]; spread [2]
    """

    right: Float64s
    logit: Float64s
    spread: Float64s


class ValueModel:
    """The trained network, in NumPy."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        named = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        check_shapes(named, _shapes(named))
        self._layers = load_layers(named, LAYERS)
        self._mean, self._std = named["centre"], named["width"]
        self._spread = np.exp(named["spread"].astype(np.float64))

    @property
    def mean(self) -> Float32s:
        """[features]: of the training data."""
        return np.asarray(self._mean, np.float32)

    def __call__(self, features: Float32s) -> Prediction:
        hidden = np.clip((features - self._mean) / self._std, -CLIP, CLIP).astype(np.float32)
        for name in LAYERS[:-1]:
            hidden = relu(linear(hidden, *self._layers[name]))
        outputs = linear(hidden, *self._layers[LAYERS[-1]]).astype(np.float64)
        return Prediction(1 / (1 + np.exp(-outputs[:, 0])), outputs[:, 1:], self._spread)


def _shapes(own: Mapping[str, NDArray[Any]]) -> Shapes:
    first, second = (own[f"{name}.bias"].size for name in LAYERS[:2])
    return {
        **linear_shapes("first", first, len(FEATURES)), **linear_shapes("second", second, first),
        **linear_shapes("told", 3, second), "centre": (len(FEATURES),), "width": (len(FEATURES),), "spread": (2,),
    }  # fmt: skip


def has_value_model(tensors: Mapping[str, NDArray[Any]]) -> bool:
    return f"{PREFIX}centre" in tensors


def refinement_values(candidates: Candidates, model: ValueModel, decoding: Decoding) -> Float64s:
    """The expected gain of each refinement [refinements]; -inf where it finds nothing new."""
    summed = candidates.sum_by_refinement(passage_values(candidates, model, decoding))
    return np.where((candidates.hits >= 0).any(1), summed, -np.inf)


def passage_values(candidates: Candidates, model: ValueModel, decoding: Decoding) -> Float64s:
    """The expected gain of reading each candidate, minus the cost of reading it [passages]."""
    ndcg, success = expected_gains(candidates, model(candidates.features))
    return ndcg + decoding.success_weight * success - decoding.read_cost


def expected_gains(candidates: Candidates, prediction: Prediction) -> tuple[Float64s, Float64s]:
    """What reading each passage is expected to add to NDCG@5, and to P(one of five holds the answer) [passages]."""
    ndcg, success = np.zeros(len(candidates.ids)), np.zeros(len(candidates.ids))
    p_right, won, lost = _P_RIGHT * candidates.ps, _p_none_right(candidates), _p_only_last_right(candidates)
    for answer in np.unique(candidates.held_answers).tolist():
        rows = candidates.held_answers == answer
        for right in (0, 1):
            entering = _p_of_ranks(candidates.ps, prediction.logit[rows, right], float(prediction.spread[right]))
            share = prediction.right[rows] if right else 1 - prediction.right[rows]
            # If this passage is right, or wrong, so is every other with its answer.
            relevance = np.where((candidates.best_answers == answer) & (answer >= 0), float(right), p_right)
            before = relevance @ _WEIGHTS[: len(relevance)]
            after = np.append(relevance, float(right))[_orders(len(relevance))]
            ndcg[rows] += share * (entering @ (after @ _WEIGHTS[: after.shape[1]] - before))
            gain = won * (1.0 if answer < 0 else _SAME_ANSWER)
            success[rows] += share * entering.sum(1) * (gain if right else -lost)
    return ndcg, success


def expected_ps(prediction: Prediction) -> Float64s:
    """The PS that each passage is expected to get [passages]."""
    # The mean of a logistic function over a normal distribution, as MacKay approximates it.
    means = prediction.logit / np.sqrt(1 + np.pi / 8 * prediction.spread**2)
    wrong, right = (1 / (1 + np.exp(-means))).T
    expected: Float64s = prediction.right * right + (1 - prediction.right) * wrong
    return expected


@cache
def _orders(count: int) -> NDArray[np.int64]:
    """The best passages in order once a new one, numbered `count`, has taken each rank in turn [ranks, best]."""
    return np.array([np.insert(np.arange(count), rank, count)[:K] for rank in range(min(count + 1, K))])


def _p_none_right(candidates: Candidates) -> float:
    """P(none of the best passages holds the answer); those with the same answer are right or wrong together."""
    answers = candidates.best_answers
    wrong = [1 - _P_RIGHT * candidates.ps[answers == answer].max() for answer in np.unique(answers)]
    return _WIN_BASE + _WIN_SCALE * float(np.prod(wrong))


def _p_only_last_right(candidates: Candidates) -> float:
    """P(only the last of the best five holds the answer): what is lost if a wrong passage displaces it."""
    ps, answers = candidates.ps, candidates.best_answers
    if len(ps) < K or answers[-1] in answers[:-1]:
        return 0.0
    others = [1 - _P_RIGHT * ps[answers == answer].max() for answer in np.unique(answers[:-1])]
    return _LOSS_SCALE * _P_RIGHT * float(ps[-1] * np.prod(others))


def _p_of_ranks(ps: Float64s, logit: Float64s, spread: float) -> Float64s:
    """The probability that a passage takes each rank among the best [passages, ranks]."""
    thresholds = logits(ps)[None, :]
    above = 1 / (1 + np.exp(-1.702 * (logit[:, None] - thresholds) / spread))  # close to the normal distribution
    if len(ps) < K:  # the last rank is free
        above = np.concatenate([above, np.ones((len(logit), 1))], 1)
    return np.diff(above, axis=1, prepend=0.0)


def logits(ps: NDArray[Any]) -> Float64s:
    clipped = np.clip(np.asarray(ps, np.float64), 1e-4, 1 - 1e-4)
    return np.log(clipped / (1 - clipped))
