"""A beam search for the query whose matches are a given set of passages.

A step adds one clause to every query of the beam: a term, a phrase or a whole title of the wanted passages, optional or
required, or a term of the unwanted matches, excluded. The objective counts *all* matches of a query. How many wanted
passages each candidate keeps is known from their texts, which bounds what it can reach; only candidates whose bound is
above the worst of the beam have their postings walked. So each step finds the best queries exactly, and a beam that is
wide enough is an exhaustive search. Two required terms can be a good query though each alone is a bad one; so a second
beam begins with pairs of required terms, and takes no place from the first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import ListsMatches
from orienteer.workshop.candidate_terms import Key, TermCache, Terms, members, wanted_keys
from orienteer.workshop.found_query import Clause, FoundQuery, Occur, Quality
from orienteer.workshop.kernels import EXCLUDED, IN, OUT, add_marks, count_marks, exclude_marks, require_marks
from orienteer.workshop.set_objectives import DescriptionLength, FBeta, SetObjective, f_beta

UNWANTED_READ = 200  # unwanted matches of a query whose terms are tried as exclusions
EXCLUSIONS = 200  # such terms that are tried, the most frequent
PATIENCE = 3  # longer queries that are tried after the best one
PAIRED = 200  # terms whose pairs are estimated: the rarest of those that most wanted passages hold
PAIRS = 200  # pairs of required terms that are counted, the best estimates


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """A query of the beam: its marks by passage, and of the wanted passages in their order."""

    clauses: tuple[Clause, ...]
    value: float
    quality: Quality
    marks: NDArray[np.uint8]
    wanted: NDArray[np.uint8]

    @property
    def required(self) -> bool:
        return any(clause.occur == "must" for clause in self.clauses)

    @property
    def optional(self) -> bool:
        return any(clause.occur == "should" for clause in self.clauses)


@dataclass(slots=True)
class _Beam:
    """Queries of one length, the best first; the best value of all lengths, and how many lengths ago that was."""

    states: list[_State]
    best: float = -np.inf
    since: int = 0

    def is_promising(self) -> bool:
        value = self.states[0].value
        self.best, self.since = (value, 0) if value > self.best else (self.best, self.since + 1)
        return self.since < PATIENCE


class SetSearch:
    """Queries for the passages `wanted`; those `held` out count neither as wanted nor as matches."""

    def __init__(
        self, engine: ListsMatches, wanted: Sequence[str], held: Sequence[str], rejected: Sequence[str], beta: float,
        objective: Literal["f", "description"],
    ) -> None:  # fmt: skip
        self._engine, self._beta = engine, beta
        self._wanted = np.sort(np.array([engine.number_of(id) for id in wanted], np.int64))
        self._held = np.array([engine.number_of(id) for id in held], np.int64)
        self._rejected = np.array([engine.number_of(id) for id in rejected], np.int64)
        self._cache = TermCache(engine, self._wanted)
        self._terms = self._cache.terms(wanted_keys(engine, wanted))
        self._objective: SetObjective = FBeta(self._wanted.size, beta)
        self._named = objective == "description"
        if self._named:
            self._objective = DescriptionLength(len(engine), self._wanted.size, len(self._terms.keys))
        self._counts = np.zeros(3, np.int64)
        self.tried = 0

    def run(
        self, seed: tuple[Clause, ...], most: int, beam: int, until: float, on_best: Callable[[FoundQuery], None]
    ) -> tuple[list[FoundQuery], bool]:
        """The best query of each length, the shortest first; False where time ran out."""
        start = self._state(seed)
        beams = [_Beam([start], start.value if seed else -np.inf)]
        bests = [self._found(start)] if seed else []
        for length in range(len(seed), most):
            if bests and monotonic() > until:  # one query at least, on a machine that compiles first, too
                return bests, False
            for each in beams:
                each.states = self._extended(each.states, beam)
            if length == 1 and not seed:
                beams.append(_Beam(self._best_pairs(beam)))
            beams = [each for each in beams if each.states]
            if not beams:
                break
            bests.append(self._found(max((each.states[0] for each in beams), key=lambda state: state.value)))
            on_best(bests[-1])
            best = max(bests, key=self.value)
            beams = [each for each in beams if each.is_promising()]
            if best.quality.recall == best.quality.precision == 1.0 or not beams:
                break
        return bests, True

    def evaluate(self, clauses: tuple[Clause, ...]) -> FoundQuery:
        return self._found(self._state(clauses))

    def value(self, found: FoundQuery) -> float:
        """The objective, minus what was rejected."""
        quality = found.quality
        return (quality.f if quality.value is None else quality.value) - quality.rejected

    def estimate(self, found: FoundQuery) -> float:
        """F-beta with the recall of the passages held out; without any, the objective. Minus what was rejected."""
        quality, recall = found.quality, found.held_out
        if recall is None:
            return self.value(found)
        square, precision = self._beta**2, quality.precision
        f = (1 + square) * precision * recall / (square * precision + recall) if precision + recall else 0.0
        return f - quality.rejected

    def _state(self, clauses: tuple[Clause, ...]) -> _State:
        marks = np.zeros(len(self._engine), np.uint8)
        required = [clause for clause in clauses if clause.occur == "must"]
        lists = {clause: self._cache.passages((clause.field, clause.term)) for clause in clauses}
        if required:
            add_marks(lists[required[0]], marks)
            for clause in required[1:]:
                require_marks(lists[clause], marks)
        else:
            for clause in clauses:
                if clause.occur == "should":
                    add_marks(lists[clause], marks)
        for clause in clauses:
            if clause.occur == "must_not":
                exclude_marks(lists[clause], marks)
        wanted = marks[self._wanted]
        rejected = int(np.count_nonzero(marks[self._rejected] == IN))
        matches = int(np.count_nonzero(marks == IN)) - int(np.count_nonzero(marks[self._held] == IN))
        quality = self._quality(int(np.count_nonzero(wanted == IN)), matches, rejected, len(clauses))
        value = quality.f if quality.value is None else quality.value
        return _State(clauses, value - rejected, quality, marks, wanted)

    def _found(self, state: _State) -> FoundQuery:
        held = float(np.mean(state.marks[self._held] == IN)) if self._held.size else None
        return FoundQuery(state.clauses, state.quality, held)

    def _quality(self, relevant: int, matches: int, rejected: int, clauses: int) -> Quality:
        return Quality(
            f_beta(relevant, matches, self._wanted.size, self._beta), relevant / matches if matches else 0.0,
            relevant / self._wanted.size, matches, relevant, rejected,
            float(self._objective.value(relevant, matches, clauses)) if self._named else None,
        )  # fmt: skip

    def _extended(self, states: Sequence[_State], beam: int) -> list[_State]:
        """The best queries of one clause more; the first of equals in a fixed order."""
        # A min-heap of the best so far: value, then the order in which they were met, the earlier above.
        best: list[tuple[float, int, tuple[Clause, ...]]] = []
        met: set[frozenset[Clause]] = set()
        number = 0
        for state in states:
            for bound, clause, passages, relevant in self._candidates(state):
                if len(best) == beam and bound <= best[0][0]:
                    break
                clauses = (*state.clauses, clause)
                if clause in state.clauses or (key := frozenset(clauses)) in met:
                    continue
                met.add(key)
                value = self._value_with(state, clause, passages, relevant)
                number -= 1
                if len(best) < beam:
                    heapq.heappush(best, (value, number, clauses))
                else:
                    heapq.heappushpop(best, (value, number, clauses))
        return [self._state(clauses) for _, _, clauses in sorted(best, reverse=True)]

    def _candidates(self, state: _State) -> Iterator[tuple[float, Clause, NDArray[np.uint32], int]]:
        """Clauses with the best value that each can have, best first; with its passages and wanted ones it keeps."""
        matched, open_ = state.wanted == IN, state.wanted == OUT
        total = state.quality.matches
        groups: list[tuple[Occur, Terms, NDArray[np.int64], NDArray[np.float64]]] = []

        def add(terms: Terms, occur: Occur, relevant: NDArray[np.int64], least: NDArray[np.int64]) -> None:
            # What is matched holds at least the wanted passages; held-out ones do not count as matches.
            least = np.maximum(relevant, least - self._held.size)
            bounds = self._objective.value(relevant, least, len(state.clauses) + 1)
            groups.append((occur, terms, relevant, np.where(relevant > 0, bounds, -np.inf)))

        terms = self._terms
        if not state.required:
            excluded = int(np.count_nonzero(state.marks == EXCLUDED)) if state.clauses else 0
            kept = (matched | (terms.holds & open_)).sum(axis=1)
            add(terms, "should", kept, np.maximum(total, terms.sizes - excluded))
            if not state.optional:
                add(terms, "must", (terms.holds & open_).sum(axis=1), terms.sizes - excluded)
        else:
            kept = (terms.holds & matched).sum(axis=1)
            add(terms, "must", kept, kept)
        if total > state.quality.relevant:
            unwanted = self._unwanted_terms(state)
            kept = (matched & ~unwanted.holds).sum(axis=1)
            add(unwanted, "must_not", kept, total - unwanted.sizes)
        bounds = np.concatenate([each for *_, each in groups])
        starts = np.cumsum([0, *(each.size for *_, each in groups)])
        for place in np.argsort(-bounds, kind="stable").tolist():
            if bounds[place] == -np.inf:
                return
            group = int(np.searchsorted(starts, place, side="right")) - 1
            row = place - int(starts[group])
            occur, terms, relevant, _ = groups[group]
            yield float(bounds[place]), Clause(occur, *terms.keys[row]), terms.lists[row], int(relevant[row])

    def _best_pairs(self, beam: int) -> list[_State]:
        best = sorted(self.required_pairs(), key=lambda pair: -pair[0])[:beam]
        return [self._state(clauses) for _, clauses in best]

    def required_pairs(self) -> Iterator[tuple[float, tuple[Clause, ...]]]:
        """Pairs of required terms with their values; which are counted is decided as if terms were independent."""
        terms = self._terms
        held = terms.holds.sum(axis=1)
        often = np.flatnonzero(2 * held > self._wanted.size)
        rows = often[np.argsort(terms.sizes[often], kind="stable")][:PAIRED]
        one, other = np.triu_indices(rows.size, 1)
        holds = terms.holds[rows].astype(np.int64)
        relevant = (holds @ holds.T)[one, other]
        rest = (terms.sizes - held)[rows].astype(np.float64)
        matches = relevant + np.rint(rest[one] * rest[other] / len(self._engine)).astype(np.int64)
        estimates = self._objective.value(relevant, matches, 2)
        for place in np.argsort(-estimates, kind="stable")[:PAIRS].tolist():
            pair = [int(rows[one[place]]), int(rows[other[place]])]  # the rarer first
            passages = terms.lists[pair[0]]
            both = passages[members(terms.lists[pair[1]], passages.astype(np.int64))]
            self.tried += 1
            found = int(both.size) - int(np.count_nonzero(members(both, self._held)))
            rejected = int(np.count_nonzero(members(both, self._rejected)))
            value = float(self._objective.value(int(relevant[place]), found, 2)) - rejected
            yield value, tuple(Clause("must", *terms.keys[row]) for row in pair)

    def _unwanted_terms(self, state: _State) -> Terms:
        """The most frequent terms of the query's unwanted matches."""
        matches = np.flatnonzero(state.marks == IN)
        unwanted = matches[~np.isin(matches, self._wanted) & ~np.isin(matches, self._held)]
        if unwanted.size > UNWANTED_READ:
            unwanted = unwanted[np.linspace(0, unwanted.size - 1, UNWANTED_READ).astype(np.int64)]
        counts: Counter[Key] = Counter()
        for number in unwanted.tolist():
            counts.update(self._cache.keys_of(number))
        often = sorted(counts, key=lambda key: (-counts[key], key))[:EXCLUSIONS]
        return self._cache.terms(often)

    def _value_with(self, state: _State, clause: Clause, passages: NDArray[np.uint32], relevant: int) -> float:
        """The objective of the query with the clause, from one walk over the clause's postings."""
        self.tried += 1
        counts = self._walk(passages, state.marks)
        held = members(passages, self._held)
        held_marks = state.marks[self._held]
        rejected_holds, rejected_marks = members(passages, self._rejected), state.marks[self._rejected]
        total, rejected = state.quality.matches, state.quality.rejected
        match clause.occur:
            case "must_not":
                matches = total - int(counts[IN]) + int(np.count_nonzero(held & (held_marks == IN)))
                rejected -= int(np.count_nonzero(rejected_holds & (rejected_marks == IN)))
            case "should":
                matches = total + int(counts[OUT]) - int(np.count_nonzero(held & (held_marks == OUT)))
                rejected += int(np.count_nonzero(rejected_holds & (rejected_marks == OUT)))
            case "must":
                inside = IN if state.required else OUT
                matches = int(counts[inside]) - int(np.count_nonzero(held & (held_marks == inside)))
                rejected = int(np.count_nonzero(rejected_holds & (rejected_marks == inside)))
        return float(self._objective.value(relevant, matches, len(state.clauses) + 1)) - rejected

    def _walk(self, passages: NDArray[np.uint32], marks: NDArray[np.uint8]) -> NDArray[np.int64]:
        count_marks(passages, marks, self._counts)
        return self._counts
