"""What a passage would bring if it were read, reckoned from what is known of it before; no torch.

A small model tells how likely a passage holds the answer, and which PS the reader would give it if it does and if it
does not. From that follows the place that it would take among the best five, and what this does to their NDCG and to
the chance that one of them holds the answer. Passages that give or hold one and the same answer are right or wrong
together: another witness of an answer that is there already raises NDCG, but hardly the chance to have the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.lookahead.candidates import Sight
from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.head import layers_of, relu
from orienteer.agents.pointer.linear import Floats, linear
from orienteer.session.score import K, weights

Doubles = NDArray[np.float64]

WEIGHER = "weigher."  # how the names of its tensors begin
LAYERS = ("first", "second", "told")
MOST = 6.0  # standardised features are held within this
_TRUST = 0.9  # P(a best passage holds the answer) is about this part of its PS
_SAME_CHANCE = 0.2  # a passage with an answer that one of the best gives already is mostly right when that one is
_NEVER_SURE, _UNSURE, _SELDOM = 0.1, 0.65, 0.65  # fitted, as those above: docs/lab-book/pointer.md
_WEIGHTS = np.array(weights())


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of passages: P(holds the answer), and the logit of PS to expect if not and if so, with its spread.

    right [passages]; logit [passages, 2]; spread [2]
    """

    right: Doubles
    logit: Doubles
    spread: Doubles


class Weigher:
    """As `WeigherModel` has it."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._layers = layers_of(tensors, [f"weigher.{name}" for name in LAYERS])
        self._centre, self._width = tensors["weigher.centre"], tensors["weigher.width"]
        self._spread = np.exp(tensors["weigher.spread"].astype(np.float64))

    def __call__(self, features: Floats) -> Outlook:
        hidden = np.clip((features - self._centre) / self._width, -MOST, MOST).astype(np.float32)
        for name in ("weigher.first", "weigher.second"):
            hidden = relu(linear(hidden, *self._layers[name]))
        told = linear(hidden, *self._layers["weigher.told"]).astype(np.float64)
        return Outlook(1 / (1 + np.exp(-told[:, 0])), told[:, 1:], self._spread)


def worth(sight: Sight, weigher: Weigher, decoding: Decoding) -> Doubles:
    """What each refinement brings, to be expected; -inf where it finds nothing new."""
    return np.where((sight.found >= 0).any(1), sight.of_candidates(values(sight, weigher, decoding)), -np.inf)


def values(sight: Sight, weigher: Weigher, decoding: Decoding) -> Doubles:
    """What reading each passage within sight brings, less its price."""
    ndcg, success = gains(sight, weigher(sight.features))
    return ndcg + decoding.success * success - decoding.price


def gains(sight: Sight, outlook: Outlook) -> tuple[Doubles, Doubles]:
    """What reading each passage brings, to be expected: NDCG@5, and P(one of five holds the answer)."""
    ndcg, success = np.zeros(len(sight.ids)), np.zeros(len(sight.ids))
    trusted, none_yet, lost = _TRUST * sight.ps, _none_right(sight), _only_last(sight)
    for answer in np.unique(sight.holds).tolist():
        own = sight.holds == answer
        for right in (0, 1):
            entering = _entering(sight.ps, outlook.logit[own, right], float(outlook.spread[right]))
            share = outlook.right[own] if right else 1 - outlook.right[own]
            # Should this passage be right, or wrong, so is every other of its answer.
            relevant = np.where((sight.says == answer) & (answer >= 0), float(right), trusted)
            before = relevant @ _WEIGHTS[: len(relevant)]
            after = np.append(relevant, float(right))[_entered(len(relevant))]
            ndcg[own] += share * (entering @ (after @ _WEIGHTS[: after.shape[1]] - before))
            won = none_yet * (1.0 if answer < 0 else _SAME_CHANCE)
            success[own] += share * entering.sum(1) * (won if right else -lost)
    return ndcg, success


@cache
def _entered(count: int) -> NDArray[np.int64]:
    """Which of the best passages stand where once a new one, called `count`, has each place in turn [places, best]."""
    return np.array([np.insert(np.arange(count), place, count)[:K] for place in range(min(count + 1, K))])


def _none_right(sight: Sight) -> float:
    """P(none of the best passages holds the answer); those that say the same stand or fall together."""
    wrong = [1 - _TRUST * sight.ps[sight.says == answer].max() for answer in np.unique(sight.says)]
    return _NEVER_SURE + _UNSURE * float(np.prod(wrong))


def _only_last(sight: Sight) -> float:
    """P(the last of the best five holds the answer and no other does): what is lost if a wrong one takes its place."""
    if len(sight.ps) < K or sight.says[-1] in sight.says[:-1]:
        return 0.0
    others = [1 - _TRUST * sight.ps[sight.says == answer].max() for answer in np.unique(sight.says[:-1])]
    return _SELDOM * _TRUST * float(sight.ps[-1] * np.prod(others))


def _entering(ps: Doubles, logit: Doubles, spread: float) -> Doubles:
    """The probability of each place among the best [passages, places]."""
    bar = logits(ps)[None, :]
    above = 1 / (1 + np.exp(-1.702 * (logit[:, None] - bar) / spread))  # near enough the normal distribution
    if len(ps) < K:  # the last place is free
        above = np.concatenate([above, np.ones((len(logit), 1))], 1)
    return np.diff(above, axis=1, prepend=0.0)


def logits(ps: NDArray[Any]) -> Doubles:
    held = np.clip(np.asarray(ps, np.float64), 1e-4, 1 - 1e-4)
    return np.log(held / (1 - held))
