"""Sums that do not depend on the company, and functions that are right to a few units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

from orienteer.agents.muzero.networks import exp_in_place, gate_in_place, matmul, tanh_in_place


@pytest.mark.parametrize("inner", [4, 32, 64, 100, 512, 700])
def test_a_row_s_product_is_the_same_to_the_bit_in_any_company(inner: int) -> None:
    draw = np.random.default_rng(inner)
    matrix, bias = draw.normal(size=(96, inner)).astype(np.float32), draw.normal(size=96).astype(np.float32)
    rows = draw.normal(size=(33, inner)).astype(np.float32)
    together = np.empty((33, 96), np.float32)
    matmul(rows, matrix, bias, together)
    np.testing.assert_allclose(together, rows @ matrix.T + bias, rtol=1e-4, atol=1e-4)
    for size in (1, 2, 3, 4, 5, 8, 32):
        for start in (0, 1, 33 - size):
            some = np.empty((size, 96), np.float32)
            matmul(rows[start : start + size], matrix, bias, some)
            assert (some == together[start : start + size]).all()


def test_powers_are_right_to_a_millionth_and_do_not_overflow() -> None:
    x = np.linspace(-70, 70, 9999).astype(np.float32)
    found = x.copy()
    exp_in_place(found)
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=1e-5)
    wide = np.array([-1e9, 1e9, 0.0], np.float32)
    exp_in_place(wide)
    assert np.isfinite(wide).all()
    assert wide[2] == 1


def test_gates_are_sigmoids_or_cut_at_zero_and_candidates_tangents() -> None:
    x = np.linspace(-20, 20, 1001).astype(np.float32)
    for relu, expected in ((False, 1 / (1 + np.exp(-x.astype(np.float64)))), (True, np.maximum(x, 0))):
        found = x.copy()
        gate_in_place(found, relu)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    found = x.copy()
    tanh_in_place(found)
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), atol=1e-5)
