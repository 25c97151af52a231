"""How sure a difference is: bootstrap intervals, paired permutation tests, Holm's correction.

Questions are the unit of chance: they are drawn anew, or the two sides of a pair are swapped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2_000
PERMUTATIONS = 10_000
_EXACT_UP_TO = 12  # differing pairs; all 2^12 swaps are fewer than the random ones
_BLOCK = 1 << 22  # numbers drawn at once


def bootstrap(values: ArrayLike, *, seed: int, level: float = 0.95, resamples: int = RESAMPLES) -> Floats:
    """Percentile intervals [M, 2] of the means of columns [N, M]; the columns share their draws."""
    table = _columns(values)
    count = len(table)
    if count == 0:
        return np.full((table.shape[1], 2), np.nan)
    draw = np.random.default_rng(seed)
    means = []
    for rows in _blocks(resamples, count):
        times = draw.multinomial(count, np.full(count, 1 / count), size=rows)  # [rows, N]: how often each is drawn
        means.append(times @ table / count)
    tail = (1 - level) / 2
    # The last bits of a product depend on how the machine splits it; a figure must not.
    return np.round(np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0).T, 9)


def permutation_test(differences: ArrayLike, *, seed: int, permutations: int = PERMUTATIONS) -> Floats:
    """Two-sided p-values [M] of paired differences [N, M]: how often random signs give as large a mean.

    Exact where few pairs differ; otherwise (1 + as large) / (1 + drawn), so that p is never 0.
    """
    table = _columns(differences)
    exact = [np.count_nonzero(column) <= _EXACT_UP_TO for column in table.T]
    p = np.array([_exact(column) if small else np.nan for column, small in zip(table.T, exact, strict=True)])
    if not all(exact):
        p[~np.array(exact)] = _sampled(table[:, ~np.array(exact)], np.random.default_rng(seed), permutations)
    return p


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: step-down, never below an earlier one, at most 1."""
    count = len(p_values)
    adjusted, highest = [0.0] * count, 0.0
    for place, i in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (count - place) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _exact(column: Floats) -> float:
    """All swaps of the pairs that differ, tried."""
    differing = column[column != 0]
    codes = np.arange(2 ** len(differing))[:, None] >> np.arange(len(differing)) & 1
    return float(np.mean(_as_large((1 - 2 * codes) @ differing, differing.sum())))


def _sampled(table: Floats, draw: np.random.Generator, permutations: int) -> Floats:
    """Random swaps; a difference that is 0 stays 0 whatever its sign, so all columns share the signs."""
    observed = table.sum(axis=0)
    larger = np.ones(table.shape[1])
    for rows in _blocks(permutations, len(table)):
        signs = 1.0 - 2.0 * draw.integers(0, 2, size=(rows, len(table)), dtype=np.int8)
        larger += _as_large(signs @ table, observed).sum(axis=0)
    p: Floats = larger / (1 + permutations)
    return p


def _as_large(sums: Floats, observed: ArrayLike) -> NDArray[np.bool_]:
    # Sums of the same numbers in another order may differ in the last bits; those are ties.
    return np.abs(sums) >= np.abs(observed) * (1 - 1e-12) - 1e-12


def _columns(values: ArrayLike) -> Floats:
    table = np.asarray(values, np.float64)
    return table[:, None] if table.ndim == 1 else table


def _blocks(total: int, width: int) -> list[int]:
    """Row counts that add up to `total`, each block at most some tens of megabytes."""
    rows = max(1, _BLOCK // max(1, width))
    return [min(rows, total - start) for start in range(0, total, rows)]
