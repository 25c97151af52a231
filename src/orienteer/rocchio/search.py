"""One step of one session: which candidate raises the score most, with as little reading as the exact answer needs.

Best first: candidates are looked at in the order of their bounds. As soon as no bound exceeds the best score found
the step is decided, and what it chose is what reading everything would have chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orienteer.rocchio.bounds import count_unread, next_unread, update_bounds
from orienteer.rocchio.judgements import Bools, Notes, Slots
from orienteer.session import SeenPassage, weights

# A gain below this is rounding, not an improvement.
LEAST_GAIN = 1e-9
# A round reads this part of what may still have to be read: one passage at a time would be leanest, but many rounds
# cost time too. Batches for the reader come from the other sessions in lock-step.
_PART = 128

_WEIGHTS = np.array(weights())
_ALL: Bools = np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Standing:
    """The session before the step, as arrays: its best passages in order, and its score."""

    score: NDArray[np.float64]
    relevant: Bools
    exact: Bools
    total: float

    @classmethod
    def of(cls, best: Sequence[SeenPassage], total: float) -> Standing:
        return cls(
            np.array([each.reading.score for each in best], np.float64),
            np.array([bool(each.relevant) for each in best], np.bool_),
            np.array([bool(each.exact) for each in best], np.bool_),
            total,
        )


class StepSearch:
    """Candidates of a step by number; `wanted` says what to read next, `learn` takes note of it.

    new       [candidates, hits]: slots of each candidate's hits that the session has not seen, -1 for none
    known     [slots]: what this session has had read; the step adds to it. That other sessions of the question have
              read a passage makes it cheaper to read, but does not change the course: a session is the same in any
              company.
    budget    passages that the step may read; None: no limit
    """

    def __init__(
        self, notes: Notes, standing: Standing, new: NDArray[np.int32], known: Bools, *,
        lambda1: float, lambda2: float, budget: int | None = None, exhaustive: bool = False,
    ) -> None:  # fmt: skip
        self._notes, self._standing, self._new, self.known = notes, standing, new, known
        self._lambda1, self._lambda2 = lambda1, lambda2
        self._left = len(notes) if budget is None else budget
        self._exhaustive = exhaustive
        self._floor = standing.total + LEAST_GAIN
        self.bound = np.zeros(len(new))
        self.settled = np.zeros(len(new), np.bool_)
        self._gain = (1 - lambda1 - lambda2) * notes.relevant + lambda2 * notes.possible
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
        """These passages have been read; their readings are in the notes."""
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
        notes, standing = self._notes, self._standing
        update_bounds(
            self._new, stale, self.known, notes.score, notes.relevant, notes.possible, notes.exact,
            standing.score, standing.relevant, standing.exact, _WEIGHTS, self._lambda1, self._lambda2,
            self.bound, self.settled,
        )  # fmt: skip
