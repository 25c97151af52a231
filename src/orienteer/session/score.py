"""The score of a result list and the reward of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

K = 5  # passages of a session's result
LAMBDA1, LAMBDA2 = 0.2, 0.6  # of the mean PS and of NDCEM in the score, the paper's


def weights(k: int = K) -> tuple[float, ...]:
    """w_i = log2(i + 1)^-1 / Σ_j log2(j + 1)^-1, for i = 1 … k; they sum to 1."""
    gains = [1 / log2(i + 1) for i in range(1, k + 1)]
    return tuple(gain / sum(gains) for gain in gains)


def ndcg(relevant: Sequence[float], k: int = K) -> float:
    """Σ w_i rel(d_i | q) over the first k passages, `eq:ndcg_ndcem-scores` a.

    With rel 0 or 1 the ideal is k relevant passages, however many there are: this is not TREC's nDCG. For judged
    questions rel is a gain (`session/relevance.py`) with which it is.
    """
    return sum((w * rel for w, rel in zip(weights(k), relevant, strict=False)), 0.0)


def ndcem(exact: Sequence[bool], k: int = K) -> float:
    """Σ w_i em(d_i | q): as NDCG, of passages whose extracted answer is a gold one, `eq:ndcg_ndcem-scores` b."""
    return ndcg(exact, k)


@dataclass(frozen=True, slots=True)
class Score:
    """S_k of a result list, and its three parts; `ndcem` is None where no answer is known, only judgements."""

    ndcg: float
    ndcem: float | None
    ps: float
    total: float


def score(
    passage_scores: Sequence[float],
    relevant: Sequence[float],
    exact: Sequence[bool] | None,
    *,
    lambda1: float = LAMBDA1,
    lambda2: float = LAMBDA2,
    k: int = K,
) -> Score:
    """S_k(D | q) = (1 - λ1 - λ2) NDCG_k + λ2 NDCEM_k + λ1 (1/k) Σ PS(d_i | q), `eq:score`.

    The mean of PS divides by k also where fewer passages were found. Without `exact`, λ2 is 0.
    """
    gain = ndcg(relevant, k)
    mean = float(sum(passage_scores[:k])) / k
    if exact is None:
        return Score(gain, None, mean, (1 - lambda1) * gain + lambda1 * mean)
    match = ndcem(exact, k)
    return Score(gain, match, mean, (1 - lambda1 - lambda2) * gain + lambda2 * match + lambda1 * mean)


def reward(after: Score, before: Score) -> float:
    """r_t = S_5(D_t | q_0) - S_5(D_{t-1} | q_0), `eq:reward`."""
    return after.total - before.total
