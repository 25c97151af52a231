"""Measures of scores and the fit of PS, against slow and obvious versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.reader.evaluate import auc, brier, calibration_error
from orienteer.reader.folder import Calibration, fit

scored = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({truth for _, truth in rows}) == 2
)


@given(scored)
def test_auc_is_the_share_of_pairs_in_the_right_order(rows):
    pairs = [(a, b) for a, t in rows if t for b, f in rows if not f]
    expected = sum(a > b for a, b in pairs) + sum(a == b for a, b in pairs) / 2
    assert auc([s for s, _ in rows], [t for _, t in rows]) == pytest.approx(expected / len(pairs))


def test_a_forecast_that_is_always_right_has_no_error():
    assert calibration_error([0.0] * 50 + [1.0] * 50, [False] * 50 + [True] * 50, bins=10) == 0
    assert brier([0.0, 1.0], [False, True]) == 0


def test_calibration_error_is_the_distance_in_each_bin():
    said = [0.2] * 10 + [0.8] * 10
    true = [False] * 6 + [True] * 4 + [True] * 10
    assert calibration_error(said, true, bins=2) == pytest.approx(0.2)


def test_the_fit_finds_the_numbers_that_made_the_data():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, 40_000)
    truths = generator.random(40_000) < Calibration(0.6, -1.2)(logits)
    a, b = fit(logits, truths)
    assert a == pytest.approx(0.6, abs=0.03)
    assert b == pytest.approx(-1.2, abs=0.05)


def test_separable_data_still_gives_finite_numbers():
    a, b = fit([-3, -2, 2, 3], [False, False, True, True])
    assert np.isfinite([a, b]).all()
    assert a > 0


def test_weights_count_as_repeated_rows():
    logits, truths = [-1.0, 0.5, 2.0, -0.5], [False, True, True, True]
    assert fit(logits, truths, [1, 2, 1, 3]) == pytest.approx(
        fit([-1.0, 0.5, 0.5, 2.0, -0.5, -0.5, -0.5], [False, True, True, True, True, True, True])
    )


def test_ps_never_overflows():
    assert Calibration(1, 0)([-1e9, 1e9]).tolist() == [0.0, 1.0]
