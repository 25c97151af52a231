"""The best readable query for a set of passages: few clauses that match the set and little else.

A beam search from the empty query, or from a seed. A step adds one clause to every query of the beam: a term, a phrase
or a whole title of the wanted passages, optional or required, or a term of the unwanted matches, excluded. The
objective counts *all* matches of a query, F-beta with the wanted passages as the truth. How many wanted passages each
candidate keeps is known from their texts, which bounds what it can reach; only candidates whose bound is above the
worst of the beam have their postings walked. So each step finds the best queries exactly, and a beam that is wide
enough is an exhaustive search.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from time import monotonic
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import Engine, ListsMatches
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import Field, Query, Refinement
from orienteer.workshop.kernels import EXCLUDED, IN, OUT, add_marks, count_marks, exclude_marks, require_marks

CLAUSES = 12
BEAM = 8
PHRASES = 400  # phrases of two words that are tried, those of most wanted passages
UNWANTED_READ = 200  # unwanted matches of a query whose terms are tried as exclusions
EXCLUSIONS = 200  # such terms that are tried, the most frequent
PATIENCE = 3  # longer queries that are tried after the best one

_WORD = re.compile(r"\w+")

Occur = Literal["should", "must", "must_not"]
Bools = NDArray[np.bool_]


class FindQueryError(OrienteerError):
    """A set of passages for which no query can be searched as asked."""


class Clause(NamedTuple):
    """A clause of a found query; a term of several words is a phrase."""

    occur: Occur
    field: Field
    term: str

    @property
    def refinement(self) -> Refinement:
        match self.occur:
            case "must":
                return Refinement("+", self.field, self.term)
            case "must_not":
                return Refinement("-", self.field, self.term)
        return Refinement("or", "contents", self.term) if self.field == "contents" else Refinement(
            "^", self.field, self.term
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts over all matches of a query; `f` is the objective, F-beta.

    matches    passages that the query returns, without those held out
    relevant   wanted passages among them
    rejected   passages named as not relevant among them
    """

    f: float
    precision: float
    recall: float
    matches: int
    relevant: int
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class ClauseContribution:
    """What the query loses without the clause: objective, wanted passages; and how many matches it then has."""

    clause: str
    loss: float
    relevant_lost: int
    matches_without: int


@dataclass(frozen=True, slots=True)
class FoundQuery:
    """A query of the Pareto front, and what it matches; `held_out` is its recall of the passages held out."""

    clauses: tuple[Clause, ...]
    quality: Quality
    held_out: float | None = None

    @property
    def query(self) -> Query:
        return Query("", tuple(clause.refinement for clause in self.clauses))

    @property
    def lucene(self) -> str:
        return str(self.query)

    @property
    def boolean(self) -> str:
        """As reviewers write it: `("x ray" OR title:radiation) NOT (film OR novel)`."""
        groups: dict[Occur, list[str]] = {"should": [], "must": [], "must_not": []}
        for occur, field, term in self.clauses:
            text = f'"{term}"' if not term.isalnum() else term
            groups[occur].append(f"title:{text}" if field == "title" else text)
        wanted = " AND ".join(groups["must"]) or " OR ".join(groups["should"])
        if not groups["must_not"]:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(groups['must_not'])})"

    def opensearch(self, contents: str = "contents", title: str = "title") -> dict[str, Any]:
        """The body of a search of OpenSearch or Elasticsearch; the arguments are the names of its fields."""
        names = {"contents": contents, "title": title}
        groups: dict[str, list[dict[str, Any]]] = {}
        for occur, field, term in self.clauses:
            kind = "match" if term.isalnum() else "match_phrase"
            groups.setdefault(occur, []).append({kind: {names[field]: term}})
        if "should" in groups and "must" not in groups:
            return {"query": {"bool": {**groups, "minimum_should_match": 1}}}
        return {"query": {"bool": groups}}


@dataclass(frozen=True, slots=True)
class FindQuery:
    """What was found.

    best            of the front: the best objective, or with held-out passages the best estimate on them
    front           the best query of each length that is better than all shorter ones, the shortest first
    contributions   of the clauses of the best
    tried           queries whose matches were counted
    complete        False where time ran out before the last length
    """

    best: FoundQuery
    front: tuple[FoundQuery, ...]
    contributions: tuple[ClauseContribution, ...]
    wanted: int
    held_out: int
    tried: int
    seconds: float
    complete: bool


def find_query(
    engine: Engine,
    relevant: Iterable[str],
    *,
    not_relevant: Iterable[str] = (),
    seed: Query | None = None,
    clauses: int = CLAUSES,
    beta: float = 1.0,
    holdout: float = 0.0,
    beam: int = BEAM,
    seconds: float = 30.0,
    on_found: Callable[[FoundQuery], None] = lambda found: None,
) -> FindQuery:
    """The best query of at most so many clauses for the passages `relevant`.

    Args:
      not_relevant: ids that should not be matched; a query that matches one is behind all that match fewer.
      seed: a query to begin with; its clauses stay.
      beta: of F-beta; above 1 recall counts more.
      holdout: share of the passages kept from the search; the front is judged by them, and the length chosen.
      beam: queries kept of each length.
      seconds: the search ends after the length that it works on then.
      on_found: called with the best query of each length as soon as it is known.
    """
    wanted = list(dict.fromkeys(relevant))
    rejected = list(dict.fromkeys(not_relevant))
    if not isinstance(engine, ListsMatches):
        raise FindQueryError("this engine does not list the passages of a term; use an index of orienteer")
    if both := set(wanted) & set(rejected):
        raise FindQueryError(f"{sorted(both)[0]!r} is named as relevant and as not relevant")
    if not 1 <= clauses <= 64 or beam < 1 or beta <= 0 or not 0 <= holdout < 1:
        raise FindQueryError(f"clauses = {clauses}, beam = {beam}, beta = {beta}, holdout = {holdout}; "
                             "expected 1 to 64, 1 or more, above 0, from 0 to below 1")  # fmt: skip
    held = _held_out(wanted, holdout)
    kept = [id for id in wanted if id not in held]
    if not kept:
        raise FindQueryError("no passages to find a query for; name one or more")
    started = monotonic()
    search = _BeamSearch(engine, kept, sorted(held), rejected, beta)
    bests, complete = search.run(
        _clauses_of(engine, seed), clauses, beam, started + seconds, lambda state: on_found(search.found(state))
    )
    if not bests:
        raise FindQueryError("the passages hold no term that can be searched")
    front = _front(bests, search)
    best = max(front, key=lambda each: (search.estimate(each), -len(each.clauses)))
    return FindQuery(
        best, front, search.contributions(best), len(kept), len(held), search.tried, monotonic() - started, complete
    )


def as_dict(result: FindQuery) -> dict[str, Any]:
    """Plain data for JSON."""

    def row(found: FoundQuery) -> dict[str, Any]:
        return {
            "clauses": [str(clause.refinement) for clause in found.clauses], "lucene": found.lucene,
            "boolean": found.boolean, "opensearch": found.opensearch(), **asdict(found.quality),
            "held_out_recall": found.held_out,
        }  # fmt: skip

    return {
        "best": row(result.best), "front": [row(each) for each in result.front],
        "contributions": [asdict(each) for each in result.contributions], "wanted": result.wanted,
        "held_out": result.held_out, "tried": result.tried, "seconds": round(result.seconds, 3),
        "complete": result.complete,
    }  # fmt: skip


def _held_out(ids: Sequence[str], share: float) -> frozenset[str]:
    """So many ids, chosen by a hash of each: the same ones in every run."""
    by_hash = sorted(ids, key=lambda id: blake2b(id.encode("utf-8", "replace"), digest_size=8).digest())
    return frozenset(by_hash[: min(round(share * len(ids)), len(ids) - 1)])


def _clauses_of(engine: Engine, seed: Query | None) -> tuple[Clause, ...]:
    if seed is None:
        return ()
    found = [Clause("should", "contents", term) for term in engine.analyze(seed.question)]
    occurs: Mapping[str, Occur] = {"+": "must", "-": "must_not", "or": "should", "^": "should"}
    found += [Clause(occurs[each.op], each.field, each.term) for each in seed.refinements]
    return tuple(dict.fromkeys(found))


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


Key = tuple[Field, str]


@dataclass(frozen=True, slots=True)
class _Terms:
    """Terms by number: their passages, how many, and which of the wanted ones are among them [terms, wanted]."""

    keys: Sequence[Key]
    lists: Sequence[NDArray[np.uint32]]
    sizes: NDArray[np.int64]
    holds: Bools


class _TermCache:
    """Terms that were met, each looked up once."""

    def __init__(self, engine: ListsMatches, wanted: NDArray[np.int64]) -> None:
        self._engine, self._wanted = engine, wanted
        self._known: dict[Key, tuple[NDArray[np.uint32], Bools]] = {}
        self._keys_of: dict[int, frozenset[Key]] = {}

    def terms(self, keys: Iterable[Key]) -> _Terms:
        """Those of the keys that some passage holds."""
        unique = list(dict.fromkeys(keys))
        new = [key for key in unique if key not in self._known]
        for key, passages in zip(new, self._engine.matches(new) if new else (), strict=True):
            holds = np.zeros(self._wanted.size, np.bool_)
            if passages.size:
                place = np.minimum(np.searchsorted(passages, self._wanted), passages.size - 1)
                holds = passages[place] == self._wanted
            self._known[key] = passages, holds
        held = [key for key in unique if self._known[key][0].size]
        lists = [self._known[key][0] for key in held]
        holds = np.stack([self._known[key][1] for key in held]) if held else np.zeros((0, self._wanted.size), np.bool_)
        return _Terms(held, lists, np.array([passages.size for passages in lists], np.int64), holds)

    def passages(self, key: Key) -> NDArray[np.uint32]:
        self.terms([key])
        return self._known[key][0]

    def keys_of(self, number: int) -> frozenset[Key]:
        """The terms of a passage, by field."""
        if (known := self._keys_of.get(number)) is None:
            known = self._keys_of[number] = frozenset(_keys_of(self._engine, self._engine.id_at(number)))
        return known


class _BeamSearch:
    def __init__(
        self, engine: ListsMatches, wanted: Sequence[str], held: Sequence[str], rejected: Sequence[str], beta: float
    ) -> None:
        self._engine, self._beta = engine, beta
        self._wanted = np.sort(np.array([engine.number_of(id) for id in wanted], np.int64))
        self._held = np.array([engine.number_of(id) for id in held], np.int64)
        self._rejected = np.array([engine.number_of(id) for id in rejected], np.int64)
        self._cache = _TermCache(engine, self._wanted)
        self._terms = self._cache.terms(_wanted_keys(engine, wanted))
        self._counts = np.zeros(3, np.int64)
        self.tried = 0

    def run(
        self, seed: tuple[Clause, ...], most: int, beam: int, until: float, on_best: Callable[[_State], None]
    ) -> tuple[list[_State], bool]:  # fmt: skip
        """The best query of each length, the shortest first; False where time ran out."""
        states = [self.state(seed)]
        bests = [states[0]] if seed else []
        for _ in range(len(seed), most):
            if bests and monotonic() > until:  # a shortest query there is, also on a machine that compiles first
                return bests, False
            states = self._extended(states, beam)
            if not states:
                break
            bests.append(states[0])
            on_best(states[0])
            best = max(bests, key=lambda state: state.value)
            perfect = best.quality.recall == best.quality.precision == 1.0
            if perfect or len(bests) - bests.index(best) > PATIENCE:
                break
        return bests, True

    def state(self, clauses: tuple[Clause, ...]) -> _State:
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
        quality = self._quality(int(np.count_nonzero(wanted == IN)), matches, rejected)
        return _State(clauses, quality.f - rejected, quality, marks, wanted)

    def contributions(self, best: FoundQuery) -> tuple[ClauseContribution, ...]:
        whole = self.state(best.clauses)
        found = []
        for clause in best.clauses:
            without = self.state(tuple(each for each in best.clauses if each != clause))
            lost = whole.quality.relevant - without.quality.relevant
            loss = whole.quality.f - without.quality.f
            found.append(ClauseContribution(str(clause.refinement), loss, lost, without.quality.matches))
        return tuple(found)

    def estimate(self, found: FoundQuery) -> float:
        """F-beta with the recall of the passages held out; without any, the objective. Minus what was rejected."""
        quality, recall = found.quality, found.held_out
        if recall is None:
            return quality.f - quality.rejected
        square, precision = self._beta**2, quality.precision
        f = (1 + square) * precision * recall / (square * precision + recall) if precision + recall else 0.0
        return f - quality.rejected

    def found(self, state: _State) -> FoundQuery:
        held = float(np.mean(state.marks[self._held] == IN)) if self._held.size else None
        return FoundQuery(state.clauses, state.quality, held)

    def _quality(self, relevant: int, matches: int, rejected: int) -> Quality:
        return Quality(
            self._f(relevant, matches), relevant / matches if matches else 0.0, relevant / self._wanted.size, matches,
            relevant, rejected,
        )  # fmt: skip

    def _f(self, relevant: Any, matches: Any) -> Any:
        """F-beta of counts, or of arrays of them."""
        square = self._beta**2
        return (1 + square) * relevant / (square * self._wanted.size + matches)

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
                value = self._value(state, clause, passages, relevant)
                number -= 1
                if len(best) < beam:
                    heapq.heappush(best, (value, number, clauses))
                else:
                    heapq.heappushpop(best, (value, number, clauses))
        return [self.state(clauses) for _, _, clauses in sorted(best, reverse=True)]

    def _candidates(self, state: _State) -> list[tuple[float, Clause, NDArray[np.uint32], int]]:
        """Clauses with the best value that each can have, best first; with its passages and wanted ones it keeps."""
        matched, open_ = state.wanted == IN, state.wanted == OUT
        total = state.quality.matches
        found: list[tuple[float, Clause, NDArray[np.uint32], int]] = []

        def add(terms: _Terms, occur: Occur, relevant: NDArray[np.int64], least: NDArray[np.int64]) -> None:
            # What is matched holds at least the wanted passages; held-out ones do not count as matches.
            bounds = self._f(relevant, np.maximum(relevant, least - self._held.size))
            for row in np.argsort(-bounds, kind="stable").tolist():
                if relevant[row]:
                    clause = Clause(occur, *terms.keys[row])
                    found.append((float(bounds[row]), clause, terms.lists[row], int(relevant[row])))

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
        found.sort(key=lambda each: -each[0])
        return found

    def _unwanted_terms(self, state: _State) -> _Terms:
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

    def _value(self, state: _State, clause: Clause, passages: NDArray[np.uint32], relevant: int) -> float:
        """The objective of the query with the clause, from one walk over the clause's postings."""
        self.tried += 1
        counts = self._walk(passages, state.marks)
        held = np.isin(self._held, passages)
        held_marks = state.marks[self._held]
        rejected_holds, rejected_marks = np.isin(self._rejected, passages), state.marks[self._rejected]
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
        return float(self._f(relevant, matches)) - rejected

    def _walk(self, passages: NDArray[np.uint32], marks: NDArray[np.uint8]) -> NDArray[np.int64]:
        count_marks(passages, marks, self._counts)
        return self._counts


def _front(bests: Sequence[_State], search: _BeamSearch) -> tuple[FoundQuery, ...]:
    front: list[FoundQuery] = []
    value = -np.inf
    for state in bests:
        if state.value > value + 1e-12:
            value = state.value
            front.append(search.found(state))
    return tuple(front)


def _keys_of(engine: Engine, id: str) -> set[Key]:
    [passage] = engine.passages([id])
    keys: set[Key] = {("contents", term) for term in engine.analyze(passage.contents)}
    keys |= {("title", term) for term in engine.analyze(passage.title)}
    return {(field, term) for field, term in keys if _usable(term)}


def _usable(term: str) -> bool:
    try:
        Refinement("+", "contents", term)
    except QueryError:
        return False
    return True


def _wanted_keys(engine: Engine, ids: Sequence[str]) -> Iterator[Key]:
    """Terms of both fields, whole titles, and the phrases of two words that most passages have."""
    words: Counter[Key] = Counter()
    phrases: Counter[Key] = Counter()
    known: dict[str, bool] = {}
    for passage in engine.passages(ids):
        words.update(_keys_of(engine, passage.id))
        title = engine.analyze(passage.title)
        if len(title) > 1 and _usable(" ".join(_WORD.findall(passage.title))):
            words["title", " ".join(_WORD.findall(passage.title.lower()))] += 1
        pairs = set()
        tokens = _WORD.findall(passage.contents.lower())
        for one, two in pairwise(tokens):
            for token in (one, two):
                if token not in known:
                    known[token] = engine.analyze(token) == [token]
            if known[one] and known[two] and _usable(f"{one} {two}"):
                pairs.add(f"{one} {two}")
        phrases.update(("contents", pair) for pair in pairs)
    yield from sorted(words, key=lambda key: (-words[key], key))
    often = [key for key, count in phrases.items() if count > 1 or len(ids) == 1]
    yield from sorted(often, key=lambda key: (-phrases[key], key))[:PHRASES]
