"""The best score that a candidate can still have, given what is read of its hits.

Relevance is known from the text. What is not read may have any PS from 0 to 1, and an exact answer where its text
allows one. A reading fixes where a passage stands among the best five, so the bound is the best of all orders in
which the unread passages could stand among those that are read: not placed, or below some read passage (or none),
with its PS at most. Once all hits are read the bound is the score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import kernel

SLACK = 1e-12  # sums taken in another order differ by less


@kernel
def update_bounds(
    new: NDArray[np.int32],  # [candidates, hits]: slots of hits that the session has not seen, -1 for none
    stale: NDArray[np.bool_],  # [slots]: only candidates with such a hit are looked at; empty: all
    known: NDArray[np.bool_],  # [slots]: read by this session
    score: NDArray[np.float64],
    relevant: NDArray[np.bool_],
    possible: NDArray[np.bool_],
    exact: NDArray[np.bool_],
    best_score: NDArray[np.float64],  # [≤ k]: the session's best so far, in their order
    best_relevant: NDArray[np.bool_],
    best_exact: NDArray[np.bool_],
    weights: NDArray[np.float64],  # [k]
    lambda1: float,
    lambda2: float,
    bound: NDArray[np.float64],  # [candidates]: out
    settled: NDArray[np.bool_],  # [candidates]: out, the bound is the score
) -> None:
    k, width = weights.size, new.shape[1]
    share = lambda1 / k
    rest = 1 - lambda1 - lambda2
    ps, rel, em = np.empty(k + 1), np.empty(k + 1), np.empty(k + 1)
    gain = np.empty(width)
    value = np.empty((k + 2, 1 << width))
    for row in range(new.shape[0]):
        if stale.size:
            touched = False
            for h in range(width):
                if new[row, h] >= 0 and stale[new[row, h]]:
                    touched = True
            if not touched:
                continue
        size = best_score.size
        for i in range(size):
            ps[i], rel[i], em[i] = best_score[i], best_relevant[i], best_exact[i]
        unread = 0
        for h in range(width):
            slot = new[row, h]
            if slot < 0:
                continue
            if not known[slot]:
                gain[unread] = rest * relevant[slot] + lambda2 * possible[slot]
                unread += 1
                continue
            # Equal scores stay in the order in which they were first seen, so an equal one is not passed.
            i = size
            while i > 0 and ps[i - 1] < score[slot]:
                ps[i], rel[i], em[i] = ps[i - 1], rel[i - 1], em[i - 1]
                i -= 1
            ps[i], rel[i], em[i] = score[slot], relevant[slot], exact[slot]
            size = min(size + 1, k)
        if unread == 0:
            ndcg, ndcem, mean = 0.0, 0.0, 0.0
            for i in range(size):
                ndcg += weights[i] * rel[i]
                ndcem += weights[i] * em[i]
                mean += ps[i]
            bound[row] = rest * ndcg + lambda2 * ndcem + lambda1 * (mean / k)
            settled[row] = True
            continue
        # value[i, placed]: the most that the ranks after i read and these unread passages can add.
        for i in range(size, -1, -1):
            ceiling = 1.0 if i == 0 else ps[i - 1]
            # An unread passage stands before a read one only with a higher score: not between two equals.
            fits = i == size or ps[i] < ceiling
            for placed in range((1 << unread) - 1, -1, -1):
                rank = i
                for j in range(unread):
                    rank += (placed >> j) & 1
                if rank >= k:
                    value[i, placed] = 0.0
                    continue
                most = 0.0
                if i < size:
                    most = weights[rank] * (rest * rel[i] + lambda2 * em[i]) + share * ps[i] + value[i + 1, placed]
                for j in range(unread):
                    if fits and not (placed >> j) & 1:
                        here = weights[rank] * gain[j] + share * ceiling + value[i, placed | (1 << j)]
                        most = max(most, here)
                value[i, placed] = most
        bound[row] = value[0, 0] + SLACK
        settled[row] = False


@kernel
def count_unread(new: NDArray[np.int32], rows: NDArray[np.int64], known: NDArray[np.bool_]) -> int:
    """Distinct unread passages of some candidates."""
    met = known.copy()
    count = 0
    for row in rows:
        for h in range(new.shape[1]):
            slot = new[row, h]
            if slot >= 0 and not met[slot]:
                met[slot] = True
                count += 1
    return count


@kernel
def next_unread(
    new: NDArray[np.int32],
    rows: NDArray[np.int64],  # candidates, the most promising first
    known: NDArray[np.bool_],
    gain: NDArray[np.float64],  # [slots]: what the passage would add at most, whatever its rank
    wanted: NDArray[np.int64],  # out
) -> int:
    """The first unread passages of the candidates in their order, each candidate's by gain; how many were found."""
    met = known.copy()
    width = new.shape[1]
    count = 0
    for row in rows:
        while count < wanted.size:
            chosen = -1
            for h in range(width):
                slot = new[row, h]
                if slot >= 0 and not met[slot] and (chosen < 0 or gain[slot] > gain[chosen]):
                    chosen = slot
            if chosen < 0:
                break
            met[chosen] = True
            wanted[count] = chosen
            count += 1
    return count
