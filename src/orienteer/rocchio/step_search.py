"""One step of a session: which candidate raises the score most, with as little reading as the exact answer needs.

Best first: candidates are read in the order of their bounds. As soon as no bound exceeds the best score found, the
step is decided, and its choice is the one that reading everything would give.

A bound is the best score that a candidate can still have, given what is read of its hits. Relevance is known from the
text. An unread passage may have any PS from 0 to 1, and an exact answer where its text allows one. A reading fixes a
passage's rank among the best five, so the bound is the maximum over all orders in which the unread passages could stand
among the read ones: not placed, or below some read passage (or none), with that passage's PS at most. Once all hits are
read, the bound is the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Question
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.rocchio.judgements import Bools, Judgements, Slots
from orienteer.session import SeenPassage, weights
from orienteer.session.relevance import gains

SLACK = 1e-12  # sums taken in another order differ by less


@kernel
def update_bounds(
    new: NDArray[np.int32],  # [candidates, hits]: slots of hits that the session has not seen, -1 for none
    stale: NDArray[np.bool_],  # [slots]: only candidates with such a hit are looked at; empty: all
    known: NDArray[np.bool_],  # [slots]: read by this session
    score: NDArray[np.float64],
    relevant: NDArray[np.float64],  # [slots]: rel(d) as its gain in NDCG
    possible: NDArray[np.bool_],
    exact: NDArray[np.bool_],
    best_score: NDArray[np.float64],  # [≤ k]: the session's best so far, in their order
    best_relevant: NDArray[np.float64],
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


# A gain below this is rounding, not an improvement.
LEAST_GAIN = 1e-9
# A round reads this part of what may still have to be read: one passage at a time would be leanest, but many rounds
# cost time too. Batches for the reader come from the other sessions.
_PART = 128

_WEIGHTS = np.array(weights())
_ALL: Bools = np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True)
class BestPassages:
    """The session before the step, as arrays: its best passages in order, and its score."""

    score: NDArray[np.float64]
    relevant: NDArray[np.float64]  # gains in NDCG
    exact: Bools
    total: float

    @classmethod
    def of(cls, question: Question, best: Sequence[SeenPassage], total: float) -> BestPassages:
        return cls(
            np.array([each.reading.score for each in best], np.float64),
            np.array(gains(question, best), np.float64),
            np.array([bool(each.exact) for each in best], np.bool_),
            total,
        )


class StepSearch:
    """Candidates of a step by number; `wanted` says what to read next, `learn` records that it was read.

    new       [candidates, hits]: slots of each candidate's hits that the session has not seen, -1 for none
    known     [slots]: what this session has had read; the step adds to it. A passage that another session of the
              question has read is free to read, but counts as unread here: a session does not depend on its batch.
    budget    passages that the step may read; None: no limit
    """

    def __init__(
        self, judgements: Judgements, best: BestPassages, new: NDArray[np.int32], known: Bools, *,
        lambda1: float, lambda2: float, budget: int | None = None, exhaustive: bool = False,
    ) -> None:  # fmt: skip
        self._judgements, self._best_passages, self._new, self.known = judgements, best, new, known
        self._lambda1, self._lambda2 = lambda1, lambda2
        self._left = len(judgements) if budget is None else budget
        self._exhaustive = exhaustive
        self._floor = best.total + LEAST_GAIN
        self.bound = np.zeros(len(new))
        self.settled = np.zeros(len(new), np.bool_)
        self._gain = (1 - lambda1 - lambda2) * judgements.relevant + lambda2 * judgements.possible
        self.read = 0
        self._update(_ALL)

    def wanted(self) -> Slots:
        """The passages to be read next, the most promising first; none once the step is decided."""
        if self._left <= 0:
            return np.zeros(0, np.int64)
        rows = np.flatnonzero(~self.settled) if self._exhaustive else self._promising()
        if not rows.size:
            return np.zeros(0, np.int64)
        unread = count_unread(self._new, rows, self.known)
        size = unread if self._exhaustive else 1 + unread // _PART
        slots = np.empty(min(size, self._left), np.int64)
        return slots[: next_unread(self._new, rows, self.known, self._gain, slots)]

    def learn(self, slots: Slots) -> None:
        """These passages have been read; their readings are in the judgements."""
        stale = np.zeros(len(self.known), np.bool_)
        stale[slots] = True
        self.known[slots] = True
        self.read += len(slots)
        self._left -= len(slots)
        self._update(stale)

    def winner(self) -> int | None:
        """The candidate with the highest score, the first of equals; None where none raises the session's."""
        best = self._best()
        return None if best is None or self.bound[best] <= self._floor else best

    @property
    def capped(self) -> bool:
        """Whether the budget ran out before the step was decided."""
        return self._left <= 0 and self._promising().size > 0

    def runners_up(self, count: int) -> list[int]:
        """The best of the other candidates whose score is known, best first; the first of equals."""
        rows = np.flatnonzero(self.settled)
        rows = rows[np.argsort(-self.bound[rows], kind="stable")]
        return [int(row) for row in rows[rows != self.winner()][:count]]

    def _best(self) -> int | None:
        if not self.settled.any():
            return None
        return int(np.argmax(np.where(self.settled, self.bound, -np.inf)))

    def _promising(self) -> Slots:
        """Candidates that may still beat the best one, by bound; the first of equals first."""
        best = self._best()
        if best is None or self.bound[best] <= self._floor:
            rows = np.flatnonzero(~self.settled & (self.bound > self._floor))
        else:
            high = self.bound[best]
            ahead = np.arange(self.bound.size) < best
            rows = np.flatnonzero(~self.settled & ((self.bound > high) | ((self.bound == high) & ahead)))
        return rows[np.argsort(-self.bound[rows], kind="stable")]

    def _update(self, stale: Bools) -> None:
        judgements, best = self._judgements, self._best_passages
        update_bounds(
            self._new, stale, self.known, judgements.score, judgements.relevant, judgements.possible, judgements.exact,
            best.score, best.relevant, best.exact, _WEIGHTS, self._lambda1, self._lambda2,
            self.bound, self.settled,
        )  # fmt: skip
