"""What the passages of a session say together.

The reader judges each passage by itself. Of the passages that a session has read the right ones mostly give the same
answer, so a passage in which the answers of the others stand is likelier to hold the right one:

    P(d holds the answer) = sigmoid(ps · logit PS(d) + votes · V(d) + asked · [the question itself found d] + bias)

V(d) is the share of all votes for answers that stand in d. The `VOTERS` passages of the highest PS have a vote each,
which weighs as much as their PS. The four weights are fitted on sessions of questions with known answers
(`orienteer train agreement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.reader.answers import match_form
from orienteer.reader.calibration import likeliest
from orienteer.session.score import K, ndcg

if TYPE_CHECKING:
    from orienteer.session.state import Seen

VOTERS = 20
_LEAST = 1e-6  # PS closer to 0 or 1 counts as this far from it

Floats = NDArray[np.float64]


class Agreement(NamedTuple):
    ps: float
    votes: float
    asked: float
    bias: float

    def __call__(self, seen: Sequence[Seen]) -> Floats:
        """The probability that each passage holds the answer, in the light of the others [passages]."""
        z = features(seen) @ np.array(self[:-1]) + self.bias
        return np.asarray(0.5 * (1 + np.tanh(z / 2)))


# Of `dev` without its first 300 questions, sessions of bm25@22+ps and prf-answer (docs/experiments.md).
SHIPPED = Agreement(ps=0.499, votes=4.955, asked=0.181, bias=-2.020)


def features(seen: Sequence[Seen]) -> Floats:
    """logit PS, V, whether the question itself found it: [passages, 3]"""
    ps = np.clip([each.reading.score for each in seen], _LEAST, 1 - _LEAST)
    voters = np.argsort(-ps, kind="stable")[:VOTERS]
    answers = [_form(seen[voter].reading.answer) for voter in voters]
    texts = [_form(each.passage.text) for each in seen]
    holds = np.array([[bool(answer.strip()) and answer in text for answer in answers] for text in texts], np.float64)
    votes = holds.reshape(len(seen), len(voters)) @ ps[voters] / max(_LEAST, ps[voters].sum())
    return np.stack([np.log(ps / (1 - ps)), votes, [float(each.step == 0) for each in seen]], 1)


def fit(sessions: Sequence[Sequence[Seen]]) -> Agreement:
    """The weights under which what the sessions' passages are is likeliest; each passage's `relevant` must be known."""
    design = np.concatenate([features(seen) for seen in sessions])
    truths = np.array([bool(each.relevant) for seen in sessions for each in seen], np.float64)
    found = likeliest(np.column_stack([design, np.ones(len(design))]), truths, prior=(1.0, 0.0, 0.0, 0.0))
    return Agreement(*(float(weight) for weight in found))


class Judged(NamedTuple):
    """Means over sessions, in percent."""

    ndcg: float
    top1: float
    top5: float


def cross_judged(sessions: Sequence[Sequence[Seen]], folds: int = 5) -> tuple[Judged, Judged]:
    """What the best five by PS are, and those by agreement with weights fitted on the other folds' sessions."""
    by_ps = [np.array([each.reading.score for each in seen]) for seen in sessions]
    by_agreement = [np.empty(0)] * len(sessions)
    for fold in range(folds):
        weights = fit([seen for number, seen in enumerate(sessions) if number % folds != fold] or sessions)
        by_agreement[fold::folds] = [weights(seen) for seen in sessions[fold::folds]]
    return _judged(sessions, by_ps), _judged(sessions, by_agreement)


def _judged(sessions: Sequence[Sequence[Seen]], worth: Sequence[Floats]) -> Judged:
    relevant = [
        [bool(seen[place].relevant) for place in np.argsort(-values, kind="stable")[:K]]
        for seen, values in zip(sessions, worth, strict=True)
    ]
    rows = [(ndcg(found), float(found[0]), float(any(found))) for found in relevant]
    return Judged(*(100 * float(mean) for mean in np.mean(rows, 0)))


_form = lru_cache(maxsize=1 << 14)(match_form)  # the same texts come back step after step
