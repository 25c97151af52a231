"""What a search for a query maximises, as a function of counts: how many passages match, and how many wanted ones.

F-beta takes every passage that was not named as unwanted. That is right for a whole set. Of a set that is known only in
part it is wrong: the best query is one that matches the named passages one by one and keeps the others out. The
description length (Rissanen's MDL) has a price for every clause instead: the bits that say which clauses the query has,
which of its matches are wanted, and which wanted passages it misses. A clause must save more bits than it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Any, Protocol

import numpy as np


class SetObjective(Protocol):
    """Rises with `relevant` and does not rise with `matches`, so that a bound of the counts bounds the value."""

    def value(self, relevant: Any, matches: Any, clauses: int) -> Any:
        """Of counts, or of arrays of them; more is better."""
        ...


def f_beta(relevant: Any, matches: Any, wanted: int, beta: float) -> Any:
    square = beta**2
    return (1 + square) * relevant / (square * wanted + matches)


@dataclass(frozen=True, slots=True)
class FBeta:
    wanted: int
    beta: float = 1.0

    def value(self, relevant: Any, matches: Any, clauses: int) -> Any:
        return f_beta(relevant, matches, self.wanted, self.beta)


class DescriptionLength:
    """The share of bits that a query saves: 1 would be a set described for nothing, 0 is no query at all.

    passages   of the index
    wanted     of the set
    terms      that a clause may have: a clause costs the bits to name one of them, and its operator
    """

    def __init__(self, passages: int, wanted: int, terms: int) -> None:
        self._passages, self._wanted = passages, wanted
        self._clause_bits = log2(max(2, 3 * terms))
        self._log_factorial = np.concatenate([[0.0], np.cumsum(np.log2(np.arange(1, passages + 1)))])
        self._nothing = max(1.0, float(self._log_choose(passages, wanted)))

    def value(self, relevant: Any, matches: Any, clauses: int) -> Any:
        # Of a query no better than chance the bits would fall again with its matches; there they stay.
        chance = np.floor(np.asarray(relevant) * (self._passages / self._wanted)).astype(np.int64)
        matches = np.maximum(relevant, np.minimum(matches, np.maximum(chance, 1)))
        missed = np.minimum(self._wanted - np.asarray(relevant), self._passages - matches)
        exceptions = self._log_choose(matches, relevant) + self._log_choose(self._passages - matches, missed)
        return 1.0 - (clauses * self._clause_bits + exceptions) / self._nothing

    def _log_choose(self, of: Any, chosen: Any) -> Any:
        table = self._log_factorial
        return table[of] - table[chosen] - table[np.asarray(of) - chosen]
