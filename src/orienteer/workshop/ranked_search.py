"""A beam search for the optional clauses, with boosts, whose *ranking* has the wanted passages first.

The objective is average precision over the whole ranking, or recall among the first hits. BM25 scores of optional
clauses add up, so a clause more is one addition over its postings; a kernel then counts what ranks before each wanted
passage. Candidates are the terms that alone describe the set best. Boosts are chosen last, clause by clause. What is
reported is computed again by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import ListsMatches, ScoresAll
from orienteer.query import Query
from orienteer.workshop.candidate_terms import TermCache, wanted_keys
from orienteer.workshop.found_query import Clause, FoundQuery, Quality
from orienteer.workshop.kernels import count_before
from orienteer.workshop.set_objectives import DescriptionLength, f_beta

SHORTLIST = 120  # terms that are tried
BOOSTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PATIENCE = 3  # longer queries that are tried after the best one

Scores = NDArray[np.float32]


@runtime_checkable
class RankedEngine(ListsMatches, ScoresAll, Protocol):
    """An engine that lists the passages of a term and scores all passages."""


@dataclass(frozen=True, slots=True)
class RankingObjective:
    """Average precision, or with `size` recall among so many first hits (equals: by average precision)."""

    size: int | None = None

    def value(self, before: NDArray[np.int64], wanted: int) -> tuple[float, float]:
        """Of how many passages rank before each matched wanted one [matched], rising."""
        ranks = before + 1
        precision = float((np.arange(1, ranks.size + 1) / ranks).sum() / wanted)
        if self.size is None:
            return precision, 0.0
        return float(np.count_nonzero(ranks <= self.size) / wanted), precision


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    clauses: tuple[Clause, ...]
    value: tuple[float, float]
    scores: Scores  # [passages], -inf where the query does not return the passage


class RankedSearch:
    """Queries that rank the passages `wanted` first; those `held` out are not in the ranking."""

    def __init__(
        self, engine: RankedEngine, wanted: Sequence[str], held: Sequence[str], rejected: Sequence[str], beta: float,
        objective: RankingObjective,
    ) -> None:  # fmt: skip
        self._engine, self._beta, self._objective = engine, beta, objective
        self._wanted = np.sort(np.array([engine.number_of(id) for id in wanted], np.int64))
        self._held = np.sort(np.array([engine.number_of(id) for id in held], np.int64))
        self._rejected = np.array([engine.number_of(id) for id in rejected], np.int64)
        terms = TermCache(engine, self._wanted).terms(wanted_keys(engine, wanted))
        relevant = terms.holds.sum(axis=1)
        alone = DescriptionLength(len(engine), self._wanted.size, len(terms.keys)).value(relevant, terms.sizes, 1)
        best = [row for row in np.argsort(-alone, kind="stable").tolist() if relevant[row]][:SHORTLIST]
        self._candidates = [Clause("should", *terms.keys[row]) for row in best]
        self._added: dict[Clause, tuple[NDArray[np.int64], Scores]] = {}
        self._open: NDArray[np.bool_] | None = None  # what a seed's + and - leave
        self.tried = 0

    def run(
        self, seed: tuple[Clause, ...], most: int, beam: int, until: float, on_best: Callable[[FoundQuery], None]
    ) -> tuple[list[FoundQuery], bool]:
        """The best query of each length, the shortest first; False where time ran out."""
        start = np.full(len(self._engine), -np.inf, np.float32)
        if seed:
            start = self._engine.scores(_query(seed)).astype(np.float32)
            self._open = self._left_open(seed)
        states = [_State(seed, self._value(start), start)]
        bests = [self.evaluate(seed)] if seed else []
        complete = True
        for _ in range(len(seed), most):
            if monotonic() > until:
                complete = False
                break
            states = self._extended(states, beam)
            if not states:
                break
            bests.append(self.evaluate(self._boosted(states[0], len(seed)).clauses))
            on_best(bests[-1])
            best = max(bests, key=self.value)
            if self.value(best) == 1.0 or len(bests) - bests.index(best) > PATIENCE:
                break
        return bests, complete

    def evaluate(self, clauses: tuple[Clause, ...]) -> FoundQuery:
        """By a search of the engine itself."""
        scores = np.full(len(self._engine), -np.inf, np.float32)
        if clauses:
            scores = self._engine.scores(_query(clauses)).astype(np.float32)
        inside = scores > -np.inf
        relevant = int(np.count_nonzero(inside[self._wanted]))
        matches = int(np.count_nonzero(inside)) - int(np.count_nonzero(inside[self._held]))
        quality = Quality(
            f_beta(relevant, matches, self._wanted.size, self._beta), relevant / matches if matches else 0.0,
            relevant / self._wanted.size, matches, relevant, int(np.count_nonzero(inside[self._rejected])),
            self._value(scores)[0],
        )  # fmt: skip
        held = self._value_of(scores, self._held, self._wanted)[0] if self._held.size else None
        return FoundQuery(clauses, quality, held)

    def value(self, found: FoundQuery) -> float:
        return found.quality.value or 0.0

    def estimate(self, found: FoundQuery) -> float:
        return self.value(found) if found.held_out is None else found.held_out

    def _value(self, scores: Scores) -> tuple[float, float]:
        self.tried += 1
        return self._value_of(scores, self._wanted, self._held)

    def _value_of(
        self, scores: Scores, wanted: NDArray[np.int64], left_out: NDArray[np.int64]
    ) -> tuple[float, float]:  # fmt: skip
        matched = wanted[scores[wanted] > -np.inf]
        order = matched[np.lexsort((matched, -scores[matched]))]
        before = np.zeros(order.size + 1, np.int64)
        kept = scores[left_out]
        scores[left_out] = -np.inf
        count_before(scores, scores[order], order, before)
        scores[left_out] = kept
        return self._objective.value(np.cumsum(before[:-1]), wanted.size)

    def _extended(self, states: Sequence[_State], beam: int) -> list[_State]:
        found: dict[frozenset[Clause], tuple[tuple[float, float], tuple[Clause, ...], _State]] = {}
        for state in states:
            for clause in self._candidates:
                clauses = (*state.clauses, clause)
                if clause in state.clauses or frozenset(clauses) in found:
                    continue
                scores = self._with(state.scores, clause)
                found[frozenset(clauses)] = self._value(scores), clauses, state
        best = sorted(found.values(), key=lambda each: (-each[0][0], -each[0][1]))[:beam]
        return [_State(clauses, value, self._with(old.scores, clauses[-1])) for value, clauses, old in best]

    def _boosted(self, state: _State, fixed: int) -> _State:
        """The boost of each clause that is best while the others stay, in turn; the seed's stay."""
        for place in range(fixed, len(state.clauses)):
            tried = []
            for boost in BOOSTS:
                clauses = list(state.clauses)
                clauses[place] = clauses[place]._replace(boost=boost)
                scores = self._with(state.scores, clauses[place], boost - state.clauses[place].boost)
                tried.append(_State(tuple(clauses), self._value(scores), scores))
            # A boost of 1 is the plain term: it is kept unless another is better.
            state = max(tried, key=lambda each: (each.value, each.clauses[place].boost == 1.0))
        return state

    def _with(self, scores: Scores, clause: Clause, weight: float = 1.0) -> Scores:
        passages, added = self._scores_of(clause._replace(boost=1.0))
        new = scores.copy()
        old = new[passages]
        new[passages] = np.where(old > -np.inf, old, 0) + np.float32(weight) * added
        return new

    def _scores_of(self, clause: Clause) -> tuple[NDArray[np.int64], Scores]:
        if (known := self._added.get(clause)) is None:
            scores = self._engine.scores(_query((clause,)))
            inside = scores > -np.inf if self._open is None else (scores > -np.inf) & self._open
            passages = np.flatnonzero(inside)
            known = self._added[clause] = passages, scores[passages].astype(np.float32)
        return known

    def _left_open(self, seed: tuple[Clause, ...]) -> NDArray[np.bool_] | None:
        """Passages that an optional clause more can score; None: all."""
        left: NDArray[np.bool_] | None = None
        if any(clause.occur == "must" for clause in seed):
            left = self._engine.scores(_query(seed)) > -np.inf
        for clause in seed:
            if clause.occur == "must_not":
                left = np.ones(len(self._engine), np.bool_) if left is None else left
                left[self._engine.matches([(clause.field, clause.term)])[0]] = False
        return left


def _query(clauses: Sequence[Clause]) -> Query:
    return Query("", tuple(clause.refinement for clause in clauses))
