"""Expected gains agree with a simulation of twenty thousand draws."""

from __future__ import annotations

import numpy as np
import pytest

from orienteer.agents.lookahead.candidates import Candidates
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.lookahead.value_model import Prediction, expected_gains, logits
from orienteer.session import ndcg

_P_RIGHT = 0.9  # part of PS that is the probability of being right


def _candidates(ps: list[float], says: list[int], holds: list[int]) -> Candidates:
    count = len(holds)
    return Candidates(
        tuple(map(str, range(count))), np.zeros((count, len(FEATURES)), np.float32), np.arange(count)[:, None],
        np.array(ps), np.array(says, int), np.array(holds, int),
    )  # fmt: skip


def _drawn(
    candidates: Candidates, prediction: Prediction, passage: int, draws: int = 20_000
) -> tuple[float, float, float]:
    """NDCG gained, and how often it is right and among the best five, and wrong and among them: by lot."""
    generator = np.random.default_rng(passage)
    total = first = pushed = 0.0
    for _ in range(draws):
        right = bool(generator.random() < prediction.right[passage])
        known = generator.random(len(candidates.ps)) < _P_RIGHT * candidates.ps
        if candidates.held_answers[passage] >= 0:
            known = np.where(candidates.best_answers == candidates.held_answers[passage], right, known)
        new = generator.logistic(prediction.logit[passage, int(right)], prediction.spread[int(right)] / 1.702)
        place = int((logits(candidates.ps) >= new).sum())
        before = ndcg(known.tolist())
        after = ndcg(np.insert(known, place, right).tolist())
        total += after - before
        first += right and place < 5
        pushed += not right and place < 5
    return total / draws, first / draws, pushed / draws


@pytest.mark.long
@pytest.mark.parametrize("ps", [[0.9, 0.6, 0.5, 0.2, 0.1], [0.7, 0.3], []])
def test_the_expected_gain_is_the_mean_of_simulated_ones(ps: list[float]) -> None:
    says = [0, 1, 0, 2, 3][: len(ps)]
    candidates = _candidates(ps, says, [-1, 0 if ps else -1, 1 if len(ps) > 1 else -1])
    prediction = Prediction(
        np.array([0.3, 0.6, 0.1]), np.array([[-2.0, 0.5], [-1.0, 1.0], [0.0, 2.0]]), np.array([1.4, 1.1])
    )  # fmt: skip
    found, success = expected_gains(candidates, prediction)
    for passage in range(3):
        total, first, wrong = _drawn(candidates, prediction, passage)
        assert found[passage] == pytest.approx(total, abs=0.006)
        if candidates.held_answers[passage] < 0:
            sure = [1 - _P_RIGHT * max(p for p, s in zip(ps, says, strict=True) if s == answer) for answer in set(says)]
            won = first * (0.1 + 0.65 * np.prod(sure))
            last = 0.65 * _P_RIGHT * ps[-1] * np.prod(sure) / (1 - _P_RIGHT * ps[-1]) if len(ps) == 5 else 0.0
            assert success[passage] == pytest.approx(won - last * wrong, abs=0.012)


def test_what_is_surely_wrong_brings_nothing_and_what_is_surely_right_and_first_the_most() -> None:
    candidates = _candidates([0.9, 0.8, 0.7, 0.6, 0.5], [0, 1, 2, 3, 4], [-1, -1])
    sure = Prediction(np.array([0.0, 1.0]), np.array([[9.0, 9.0], [9.0, 9.0]]), np.array([0.1, 0.1]))
    found, success = expected_gains(candidates, sure)
    assert found[0] < 0 < found[1]
    assert success[0] < 0 < success[1]
    low = Prediction(sure.right, -sure.logit, sure.spread)  # never among the best five
    assert np.abs(expected_gains(candidates, low)).max() < 1e-9
