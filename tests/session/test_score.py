"""Scores and rewards, against a ten-line reference and the paper's printed numbers."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.session import ndcem, ndcg, reward, score, weights

W = (0.3392, 0.2140, 0.1696, 0.1461, 0.1312)
unit = st.floats(0, 1)
results = st.lists(st.tuples(unit, st.booleans(), st.booleans()), max_size=8)


def reference(passages: list[tuple[float, bool, bool]], lambda1: float, lambda2: float) -> list[float]:
    """The paper's formulas, written out."""
    ideal = gain = match = mean = 0.0
    for i in range(1, 6):
        ideal += 1 / log2(i + 1)
        if i <= len(passages):
            ps, relevant, exact = passages[i - 1]
            gain += relevant / log2(i + 1)
            match += exact / log2(i + 1)
            mean += ps / 5
    gain, match = gain / ideal, match / ideal
    return [gain, match, mean, (1 - lambda1 - lambda2) * gain + lambda2 * match + lambda1 * mean]


def test_the_weights_are_the_papers() -> None:
    assert [round(w, 4) for w in weights()] == list(W)
    assert sum(weights()) == pytest.approx(1)


@given(results, st.sampled_from([(0.2, 0.6), (0.0, 0.0), (0.5, 0.5), (1.0, 0.0)]))
def test_scores_agree_with_the_reference(
    passages: list[tuple[float, bool, bool]], lambdas: tuple[float, float]
) -> None:
    ps, relevant, exact = (list(part) for part in zip(*passages, strict=True)) if passages else ([], [], [])
    came = score(ps, relevant, exact, lambda1=lambdas[0], lambda2=lambdas[1])
    assert [came.ndcg, came.ndcem, came.ps, came.total] == pytest.approx(reference(passages, *lambdas))
    assert 0 <= came.total <= 1 + 1e-12
    assert (ndcg(relevant), ndcem(exact)) == (came.ndcg, came.ndcem)


@given(results, results)
def test_the_reward_is_the_difference_of_two_scores(
    before: list[tuple[float, bool, bool]], after: list[tuple[float, bool, bool]]
) -> None:
    def scored(passages: list[tuple[float, bool, bool]]) -> list[list[float]]:
        return [[each[i] for each in passages] for i in range(3)]

    expected = reference(after, 0.2, 0.6)[3] - reference(before, 0.2, 0.6)[3]
    assert reward(score(*scored(after)), score(*scored(before))) == pytest.approx(expected)


def test_one_relevant_passage_of_one_is_not_a_perfect_ndcg() -> None:
    assert ndcg([True]) == pytest.approx(0.3392, abs=5e-5)
    assert ndcg([True] * 5) == pytest.approx(1)
    assert ndcg([True] * 9) == pytest.approx(1)
    assert ndcg([]) == 0


@pytest.mark.parametrize(
    ("printed", "relevant", "exact", "mean_ps"),
    [
        (0.043, [2], [], 0.0),  # the x factor, q0
        (0.027, [5], [], 0.004),  # basketball, q0
        (0.071, [1], [], 0.016),  # the wwe, q0
        (0.040, [3], [], 0.03),  # sesame street and baking, q0
        (0.946, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 0.73),
    ],
)
def test_scores_that_the_paper_prints_are_reached(
    printed: float, relevant: list[int], exact: list[int], mean_ps: float
) -> None:
    places = range(1, 6)
    came = score([mean_ps] * 5, [i in relevant for i in places], [i in exact for i in places])
    assert round(came.total, 3) == printed
