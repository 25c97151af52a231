"""Bootstrap, permutation test and Holm's correction on cases whose answer is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.evaluation import bootstrap, holm, permutation_test


def test_holm_on_a_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_of_one_is_itself_and_of_many_never_above_one() -> None:
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
    assert holm([0.5, 0.9, 0.6]) == [1.0, 1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, corrected in zip(p, adjusted, strict=True):
        assert raw <= corrected <= max(raw, min(1.0, len(p) * max(p)))
    order = np.argsort(p, kind="stable")
    assert list(np.array(adjusted)[order]) == sorted(adjusted)


def by_hand(differences: list[float]) -> float:
    """Every swap of every pair."""
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return float(np.mean([each >= abs(sum(differences)) - 1e-9 for each in sums]))


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=8))
def test_few_pairs_are_tested_exactly(differences: list[float]) -> None:
    assert permutation_test(differences, seed=0)[0] == pytest.approx(by_hand(differences))


def test_ten_wins_of_ten_have_p_of_two_in_1024() -> None:
    assert permutation_test([1.0] * 10, seed=0)[0] == pytest.approx(2 / 1024)
    assert permutation_test([1.0] * 10 + [0.0] * 500, seed=0)[0] == pytest.approx(2 / 1024)


def test_no_difference_has_p_one() -> None:
    assert permutation_test(np.zeros((30, 2)), seed=0).tolist() == [1.0, 1.0]
    assert permutation_test(np.tile([1.0, -1.0], 50), seed=0)[0] == 1.0


def test_many_wins_have_the_least_p_there_is() -> None:
    assert permutation_test(np.ones(200), seed=0, permutations=999)[0] == pytest.approx(1 / 1000)


def test_sampled_p_is_close_to_the_exact_one() -> None:
    wins, losses = 13, 5
    draws = np.random.default_rng(1).binomial(wins + losses, 0.5, 400_000)
    exact = np.mean(np.abs(2 * draws - (wins + losses)) >= wins - losses)
    p = permutation_test([1.0] * wins + [-1.0] * losses, seed=0, permutations=50_000)[0]
    assert p == pytest.approx(exact, abs=0.006)


def test_under_the_null_p_is_uniform() -> None:
    draws = np.random.default_rng(2).normal(size=(40, 400))  # 400 comparisons without a difference
    p = permutation_test(draws, seed=0, permutations=1000)
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.08)


def test_the_same_seed_gives_the_same_figures() -> None:
    values = np.random.default_rng(3).normal(size=(50, 3))
    assert bootstrap(values, seed=1).tolist() == bootstrap(values, seed=1).tolist()
    assert bootstrap(values, seed=1).tolist() != bootstrap(values, seed=2).tolist()
    assert permutation_test(values, seed=1).tolist() == permutation_test(values, seed=1).tolist()


def test_an_interval_is_that_of_the_normal_law_where_there_are_many() -> None:
    values = np.random.default_rng(4).normal(10.0, 2.0, 1000)
    [[low, high]] = bootstrap(values, seed=0)
    error = 1.96 * values.std() / np.sqrt(1000)
    assert low == pytest.approx(values.mean() - error, abs=0.02)
    assert high == pytest.approx(values.mean() + error, abs=0.02)


def test_an_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap([7.0] * 20, seed=0).tolist() == [[7.0, 7.0]]
    assert np.isnan(bootstrap(np.empty((0, 2)), seed=0)).all()
