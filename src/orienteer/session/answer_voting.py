"""Answer voting: orders a session's passages by how far their answers agree.

The reader judges each passage by itself. Of the passages that a session has read the right ones mostly give the same
answer, so one in which the answers of the others stand, or whose answer stands in the others, is likelier to be right:

    P(the answer stands in d), P(the reader's answer from d is right)
        = sigmoid(ps · logit PS(d) + votes · V(d) + support · U(d) + asked · [the question itself found d] + bias)

with five weights each. V(d) is the share of all votes for answers that stand in d; the `VOTERS` passages of the highest
PS have a vote each, which weighs as much as their PS. U(d) = log(1 + the PS of all others in which d's answer stands).
The weights are fitted on sessions of questions with known answers (`orienteer train agreement`).

Passages are ordered by their expected contribution to the score S. Witnesses of one answer are right or wrong
together, so the last place goes to a passage with another answer where the first four may well be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.reader.answer_matching import match_form
from orienteer.reader.folder import likeliest
from orienteer.session.score import LAMBDA1, LAMBDA2, K, ndcg, weights

if TYPE_CHECKING:
    from orienteer.session.state import SeenPassage

VOTERS = 20
_LEAST = 1e-6  # PS closer to 0 or 1 counts as this far from it
_ANOTHER = 1.0  # what a first right passage is worth, where a right one in all five places has NDCG 1
_SAME = 0.1  # the chance that a witness of an answer is right although those before it are wrong, beside others' 1

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """Of one of the two probabilities."""

    ps: float
    votes: float
    support: float
    asked: float
    bias: float

    def __call__(self, inputs: Floats) -> Floats:
        """[passages], from their features."""
        return np.asarray(0.5 * (1 + np.tanh((inputs @ np.array(self[:-1]) + self.bias) / 2)))


class Agreement(NamedTuple):
    """`holds`: the answer stands in the passage, rel(d | q); `gives`: the reader takes it from there, em(d | q)."""

    holds: Weights
    gives: Weights

    def order(self, seen: Sequence[SeenPassage], k: int = K) -> list[int]:
        """The places of the best k passages, best first; ties as first seen."""
        inputs, ps = features(seen), np.array([each.reading.score for each in seen])
        right = self.holds(inputs)
        worth = (1 - LAMBDA1 - LAMBDA2) * right + LAMBDA2 * self.gives(inputs) + LAMBDA1 / K * ps
        ranked: list[int] = np.argsort(-worth, kind="stable").tolist()
        if len(seen) <= k or k < 2:
            return ranked[:k]
        first = ranked[: k - 1]
        answers = [_form(seen[place].reading.answer) for place in first]
        told_already = np.array([_holds(_form(each.passage.text), answers) for each in seen]).any(1)
        all_wrong = 1 - right[first].max()
        last = right * (weights(k)[-1] + _ANOTHER * all_wrong * np.where(told_already, _SAME, 1.0))
        return [*first, max(ranked[k - 1 :], key=lambda place: last[place])]


# Of `dev` without its first 300 questions, sessions of bm25@22+ps, prf-answer and pointer (docs/lab-book/baselines.md).
SHIPPED = Agreement(
    holds=Weights(ps=0.400, votes=4.412, support=0.368, asked=0.080, bias=-2.026),
    gives=Weights(ps=0.374, votes=2.343, support=1.359, asked=0.481, bias=-3.738),
)


def features(seen: Sequence[SeenPassage]) -> Floats:
    """logit PS, V, U, whether the question itself found it: [passages, 4]"""
    ps = np.clip([each.reading.score for each in seen], _LEAST, 1 - _LEAST)
    answers = [_form(each.reading.answer) for each in seen]
    holds = np.array([_holds(_form(each.passage.text), answers) for each in seen], np.float64)  # [passages, answers]
    voters = np.argsort(-ps, kind="stable")[:VOTERS]
    votes = holds[:, voters] @ ps[voters] / max(_LEAST, ps[voters].sum())
    support = np.log1p(ps @ holds - ps * holds.diagonal())
    return np.stack([np.log(ps / (1 - ps)), votes, support, [float(each.step == 0) for each in seen]], 1)


def fit(sessions: Sequence[Sequence[SeenPassage]]) -> Agreement:
    """The weights under which what the sessions' passages are is likeliest; `relevant` and `exact` must be known."""
    design = np.concatenate([features(seen) for seen in sessions])
    design = np.column_stack([design, np.ones(len(design))])
    every = [each for seen in sessions for each in seen]

    def fitted(truths: Iterable[bool | None]) -> Weights:
        theta = likeliest(design, [bool(truth) for truth in truths], prior=(1.0, 0.0, 0.0, 0.0, 0.0))
        return Weights(*(float(weight) for weight in theta))

    return Agreement(fitted(each.relevant for each in every), fitted(each.exact for each in every))


class Judged(NamedTuple):
    """Means over sessions, in percent."""

    ndcg: float
    top1: float
    top5: float
    em: float


def cross_judged(sessions: Sequence[Sequence[SeenPassage]], folds: int = 5) -> tuple[Judged, Judged]:
    """What the best five by PS are, and those by agreement with weights fitted on the other folds' sessions."""
    by_ps = [np.argsort([-each.reading.score for each in seen], kind="stable")[:K].tolist() for seen in sessions]
    by_agreement: list[list[int]] = [[]] * len(sessions)
    for fold in range(folds):
        fitted = fit([seen for number, seen in enumerate(sessions) if number % folds != fold] or sessions)
        by_agreement[fold::folds] = [fitted.order(seen) for seen in sessions[fold::folds]]
    return _judged(sessions, by_ps), _judged(sessions, by_agreement)


def _judged(sessions: Sequence[Sequence[SeenPassage]], orders: Sequence[Sequence[int]]) -> Judged:
    rows = []
    for seen, order in zip(sessions, orders, strict=True):
        relevant = [bool(seen[place].relevant) for place in order]
        rows.append((ndcg(relevant), relevant[0], any(relevant), bool(seen[order[0]].exact)))
    return Judged(*(100 * float(mean) for mean in np.mean(rows, 0)))


def _holds(text: str, answers: Sequence[str]) -> list[bool]:
    """Which answers stand in a text; nothing is no answer."""
    return [bool(answer.strip()) and answer in text for answer in answers]


_form = lru_cache(maxsize=1 << 14)(match_form)  # the same texts come back step after step
