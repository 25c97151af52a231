"""The best readable query for a set of passages: few clauses that match the set and little else, or rank it first.

`set_search` searches by what a query matches (F-beta, description length), `ranked_search` by where it ranks the wanted
passages (average precision, recall among the first hits). Both are beam searches from the empty query, or from a seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from time import monotonic
from typing import Any, Protocol

from orienteer.engine.protocol import Engine, ListsMatches
from orienteer.errors import OrienteerError
from orienteer.query import Query
from orienteer.workshop.found_query import Clause, FoundQuery, Occur, Quality
from orienteer.workshop.ranked_search import RankedEngine, RankedSearch, RankingObjective
from orienteer.workshop.set_search import SetSearch

__all__ = [
    "Clause",
    "ClauseContribution",
    "FindQuery",
    "FindQueryError",
    "FoundQuery",
    "Quality",
    "as_dict",
    "find_query",
]

CLAUSES = 12
BEAM = 8
OBJECTIVES = "f, description, ap, or recall@N such as recall@100"

_RECALL = re.compile(r"recall@([1-9][0-9]{0,8})")


class FindQueryError(OrienteerError):
    """A set of passages for which no query can be searched as asked."""


@dataclass(frozen=True, slots=True)
class ClauseContribution:
    """What the query loses without the clause: objective, wanted passages; and how many matches it then has."""

    clause: str
    loss: float
    relevant_lost: int
    matches_without: int


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


class _Search(Protocol):
    tried: int

    def run(
        self, seed: tuple[Clause, ...], most: int, beam: int, until: float, on_best: Callable[[FoundQuery], None]
    ) -> tuple[list[FoundQuery], bool]: ...

    def evaluate(self, clauses: tuple[Clause, ...]) -> FoundQuery: ...

    def value(self, found: FoundQuery) -> float: ...

    def estimate(self, found: FoundQuery) -> float: ...


def find_query(
    engine: Engine,
    relevant: Iterable[str],
    *,
    not_relevant: Iterable[str] = (),
    seed: Query | None = None,
    objective: str = "f",
    clauses: int = CLAUSES,
    beta: float = 1.0,
    holdout: float = 0.0,
    beam: int = BEAM,
    seconds: float = 30.0,
    on_found: Callable[[FoundQuery], None] = lambda found: None,
) -> FindQuery:
    """The best query of at most so many clauses for the passages `relevant`.

    Args:
      not_relevant: ids that should not be matched; a query that matches one is behind all that match fewer. A ranking's
        objective treats them as every passage that is not wanted.
      seed: a query to begin with; its clauses stay.
      objective: `f`: F-beta of the matches, for a whole set; `description`: the fewest bits, for a set known in part;
        `ap`: average precision of the ranking; `recall@N`: recall among the first N hits.
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
    search = _search(engine, kept, sorted(held), rejected, beta, objective)
    bests, complete = search.run(_clauses_of(engine, seed), clauses, beam, started + seconds, on_found)
    if not bests:
        raise FindQueryError("the passages hold no term that can be searched")
    front = _front(bests, search)
    best = max(front, key=lambda each: (search.estimate(each), -len(each.clauses)))
    return FindQuery(
        best, front, _contributions(search, best), len(kept), len(held), search.tried, monotonic() - started, complete
    )


def as_dict(result: FindQuery) -> dict[str, Any]:
    """Plain data for JSON; `value` is there where the objective is not F-beta."""

    def row(found: FoundQuery) -> dict[str, Any]:
        quality = {name: value for name, value in asdict(found.quality).items() if value is not None}
        return {
            "clauses": [str(clause.refinement) for clause in found.clauses], "lucene": found.lucene,
            "boolean": found.boolean, "opensearch": found.opensearch(), **quality,
            "held_out_recall": found.held_out,
        }  # fmt: skip

    return {
        "best": row(result.best), "front": [row(each) for each in result.front],
        "contributions": [asdict(each) for each in result.contributions], "wanted": result.wanted,
        "held_out": result.held_out, "tried": result.tried, "seconds": round(result.seconds, 3),
        "complete": result.complete,
    }  # fmt: skip


def _search(
    engine: ListsMatches, wanted: Sequence[str], held: Sequence[str], rejected: Sequence[str], beta: float,
    objective: str,
) -> _Search:  # fmt: skip
    if objective == "f":
        return SetSearch(engine, wanted, held, rejected, beta, "f")
    if objective == "description":
        return SetSearch(engine, wanted, held, rejected, beta, "description")
    recall = _RECALL.fullmatch(objective)
    if objective != "ap" and not recall:
        raise FindQueryError(f"objective {objective!r}; expected {OBJECTIVES}")
    if not isinstance(engine, RankedEngine):
        raise FindQueryError("this engine does not score all passages; use an index of orienteer")
    return RankedSearch(engine, wanted, held, rejected, beta, RankingObjective(int(recall[1]) if recall else None))


def _held_out(ids: Sequence[str], share: float) -> frozenset[str]:
    """So many ids, chosen by a hash of each: the same ones in every run."""
    by_hash = sorted(ids, key=lambda id: blake2b(id.encode("utf-8", "replace"), digest_size=8).digest())
    return frozenset(by_hash[: min(round(share * len(ids)), len(ids) - 1)])


def _clauses_of(engine: Engine, seed: Query | None) -> tuple[Clause, ...]:
    if seed is None:
        return ()
    found = [Clause("should", "contents", term) for term in engine.analyze(seed.question)]
    occurs: Mapping[str, Occur] = {"+": "must", "-": "must_not", "or": "should", "^": "should"}
    found += [Clause(occurs[each.op], each.field, each.term, each.weight) for each in seed.refinements]
    return tuple(dict.fromkeys(found))


def _contributions(search: _Search, best: FoundQuery) -> tuple[ClauseContribution, ...]:
    found = []
    for clause in best.clauses:
        without = search.evaluate(tuple(each for each in best.clauses if each != clause))
        lost = best.quality.relevant - without.quality.relevant
        loss = _objective(best) - _objective(without)
        found.append(ClauseContribution(str(clause.refinement), loss, lost, without.quality.matches))
    return tuple(found)


def _objective(found: FoundQuery) -> float:
    return found.quality.f if found.quality.value is None else found.quality.value


def _front(bests: Sequence[FoundQuery], search: _Search) -> tuple[FoundQuery, ...]:
    front: list[FoundQuery] = []
    for found in bests:
        if not front or search.value(found) > search.value(front[-1]) + 1e-12:
            front.append(found)
    return tuple(front)
