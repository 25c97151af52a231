"""Why a query does not find a passage, and the smallest edit of the query with which it does.

An *edit* adds refinements of the passage's own terms, or drops refinements of the query. Every edit of one change is
tried, all additions in one call of `refine`; where none is enough, every edit of two. The best edit is the least by
`Edit.size`, so it is minimal among all of them: fewest changes first, then the fewest passages that leave the top k,
then the gentlest operators, then the rarest terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from time import monotonic
from typing import Any

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.hits import HitLists
from orienteer.engine.protocol import Engine, Explains, Explanation, Hit, ScoresAll, refine_many
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import G4, Field, Query, Refinement

K = 10
DEEPEST = 1000  # hits in which a rank is looked for, where the engine does not score all passages
_REQUIRED, _DROPPED = 10.0, 20.0  # strength of `+`, and of dropping a refinement, beside boosts of 0.1 to 8
_BATCH = 64  # queries that are refined in one call


class WhyNotError(OrienteerError):
    """A miss that cannot be explained as asked."""


@dataclass(frozen=True, slots=True)
class ClauseComparison:
    """One clause of the query: what it gives the passage, and what it gives the k-th hit."""

    occur: str
    field: str
    term: str
    boost: float
    idf: float
    frequency: int
    score: float
    kth_frequency: int
    kth_score: float


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed query that has the passage among its top k.

    `entered` and `left` are the ids that come into the top k and that leave it.
    """

    dropped: tuple[Refinement, ...]
    added: tuple[Refinement, ...]
    query: Query
    rank: int
    entered: tuple[str, ...]
    left: tuple[str, ...]
    rarity: float = 0.0  # idf of the added terms, summed

    @property
    def size(self) -> tuple[int, int, float, float, str]:
        """What decides between edits; the least is the best. No two edits have the same."""
        strength = sum(map(_strength, self.added)) + _DROPPED * len(self.dropped)
        changes = len(self.added) + len(self.dropped)
        return changes, len(self.left), round(strength, 6), -round(self.rarity, 4), str(self)

    def __str__(self) -> str:
        return " ".join([f"drop {each}" for each in self.dropped] + [f"add {each}" for each in self.added])


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a passage is not among the top k of a query.

    rank        from 1 among all passages the query returns; None where it does not return this one, or, for engines
                that score only the best, where it is not among the first 1,000
    kth         the last hit of the top k; None where there are fewer than k
    blocked_by  clauses that keep the passage out whatever its score: a required term it lacks, an excluded one it has
    missing     optional terms of the query that the passage lacks
    length      terms in the passage, and in the k-th hit
    edits       the best edits, best first; all are of the least number of changes that is enough
    tried       how many edits were tried
    complete    whether all edits up to the last number of changes were tried, so that the first is minimal
    """

    passage: str
    query: Query
    k: int
    matches: bool
    score: float
    rank: int | None
    kth: Hit | None
    clauses: tuple[ClauseComparison, ...]
    blocked_by: tuple[str, ...]
    missing: tuple[str, ...]
    length: int
    kth_length: int
    edits: tuple[Edit, ...]
    tried: int
    complete: bool

    @property
    def found(self) -> bool:
        return self.rank is not None and self.rank <= self.k


def why_not(
    engine: Engine,
    query: Query,
    passage_id: str,
    *,
    k: int = K,
    keep: Iterable[str] = (),
    changes: int = 2,
    alternatives: int = 5,
    seconds: float = 60.0,
) -> WhyNot:
    """Explains the miss and finds the smallest edits.

    Args:
      keep: ids among the top k that an edit must not lose.
      changes: how many changes an edit may have, 0 to 2.
      alternatives: how many edits to return.
      seconds: edits of two changes are tried no longer than this.
    """
    if not 0 <= changes <= 2:
        raise WhyNotError(f"{changes} changes; expected 0, 1 or 2")
    [passage] = engine.passages([passage_id])
    hits = list(engine.search(query, k))
    top = tuple(hit.id for hit in hits)
    kept = frozenset(keep)
    if lost := sorted(kept.difference(top)):
        raise WhyNotError(f"cannot keep {', '.join(lost)}: not among the first {k} of the query as it is")
    explanation = engine.explain(query, passage_id) if isinstance(engine, Explains) else None
    score, rank = _place(engine, query, passage_id, explanation)
    kth = hits[-1] if len(hits) == k else None
    clauses = _comparison(engine, query, explanation, kth)
    blocking = [
        each for each in clauses if (each.occur == "must") != bool(each.frequency) and each.occur != "should"
    ]  # fmt: skip
    edits: list[Edit] = []
    tried, complete = 0, True
    if passage_id not in top and changes:
        search = _EditSearch(engine, query, passage, k, top, kept, alternatives)
        blockers = search.refinements_of(blocking)
        edits, tried, complete = search.run(blockers, changes, seconds)
    kth_passages = engine.passages([kth.id]) if kth else []
    return WhyNot(
        passage_id, query, k, explanation.matches if explanation else rank is not None, score, rank, kth, clauses,
        tuple(f"{'+' if each.occur == 'must' else '-'}{each.field}:{each.term}" for each in blocking),
        tuple(each.term for each in clauses if each.occur == "should" and not each.frequency),
        len(engine.analyze(passage.contents)), sum(len(engine.analyze(each.contents)) for each in kth_passages),
        tuple(edits[:alternatives]), tried, complete,
    )  # fmt: skip


def as_dict(result: WhyNot) -> dict[str, Any]:
    """Plain data for JSON; queries and refinements as Lucene writes them."""
    row = asdict(result)
    row["query"] = str(result.query)
    row["kth"] = result.kth._asdict() if result.kth else None
    row["edits"] = [
        {
            "dropped": [str(each) for each in edit.dropped], "added": [str(each) for each in edit.added],
            "query": str(edit.query), "rank": edit.rank, "entered": list(edit.entered), "left": list(edit.left),
        }
        for edit in result.edits
    ]  # fmt: skip
    return row


def own_refinements(engine: Engine, passage: Passage) -> list[Refinement]:
    """Every refinement of the passage's own terms that can keep the passage: all operators but `-`."""
    found: list[Refinement] = []
    texts: tuple[tuple[Field, str], ...] = (("contents", passage.contents), ("title", passage.title))
    for field, text in texts:
        for term in dict.fromkeys(engine.analyze(text)):
            try:
                found += [each for each in G4.refinements(field, term) if each.op != "-"]
            except QueryError:  # longer than a query's term may be
                continue
    return found


def _strength(refinement: Refinement) -> float:
    return _REQUIRED if refinement.op == "+" else refinement.weight


def _place(
    engine: Engine, query: Query, passage_id: str, explanation: Explanation | None
) -> tuple[float, int | None]:  # fmt: skip
    """The passage's score and its rank among all that the query returns."""
    if isinstance(engine, ScoresAll):
        scores, number = engine.scores(query), engine.number_of(passage_id)
        own = scores[number]
        if own == -np.inf:
            return explanation.score if explanation else 0.0, None
        ahead = np.count_nonzero(scores > own) + np.count_nonzero(scores[:number] == own)
        return float(own), int(ahead) + 1
    for rank, hit in enumerate(engine.search(query, DEEPEST), 1):
        if hit.id == passage_id:
            return hit.score, rank
    return explanation.score if explanation else 0.0, None


def _comparison(
    engine: Engine, query: Query, explanation: Explanation | None, kth: Hit | None
) -> tuple[ClauseComparison, ...]:
    if explanation is None:
        return ()
    others = engine.explain(query, kth.id).shares if kth and isinstance(engine, Explains) else ()
    beside = {(each.occur, each.field, each.term): each for each in others}
    rows = []
    for each in explanation.shares:
        other = beside.get((each.occur, each.field, each.term))
        rows.append(
            ClauseComparison(
                each.occur, each.field, each.term, each.boost, each.idf, each.frequency, each.score,
                other.frequency if other else 0, other.score if other else 0.0,
            )
        )  # fmt: skip
    return tuple(rows)


class _EditSearch:
    """Tries edits of one query for one passage."""

    def __init__(
        self, engine: Engine, query: Query, passage: Passage, k: int, top: tuple[str, ...], keep: frozenset[str],
        best: int,
    ) -> None:  # fmt: skip
        self.engine, self.query, self.passage, self.k, self.top, self.best = engine, query, passage, k, top, best
        self.wanted = {passage.id, *keep}
        self.own = own_refinements(engine, passage)
        self.tried = 0
        self._idf: dict[tuple[str, str], float] = {}

    def refinements_of(self, clauses: Sequence[ClauseComparison]) -> set[int]:
        """Places in the query of the refinements that made these clauses."""
        texts = {(("+" if each.occur == "must" else "-"), each.field, each.term) for each in clauses}
        return {
            place for place, each in enumerate(self.query.refinements)
            if (each.op, each.field, " ".join(self.engine.analyze(each.term))) in texts
        }  # fmt: skip

    def run(self, blockers: set[int], changes: int, seconds: float) -> tuple[list[Edit], int, bool]:
        """The edits of the least number of changes, best first; how many were tried; whether that was all."""
        drops = [frozenset(each) for each in _drops(len(self.query.refinements), changes) if blockers <= set(each)]
        if edits := self._one_change([each for each in drops if len(each) == 1], add=not blockers):
            return sorted(edits, key=lambda edit: edit.size), self.tried, True
        if changes < 2:
            return [], self.tried, True
        edits, complete = self._two_changes(drops, not blockers, monotonic() + seconds)
        return sorted(edits, key=lambda edit: edit.size), self.tried, complete

    def _one_change(self, drops: Sequence[frozenset[int]], add: bool) -> list[Edit]:
        edits = list(self._searched(drops))
        if add:
            edits += self._refined([(frozenset(), ())], [self.own])
        return edits

    def _two_changes(self, drops: Sequence[frozenset[int]], add: bool, until: float) -> tuple[list[Edit], bool]:
        edits = list(self._searched([each for each in drops if len(each) == 2]))
        bases: list[tuple[frozenset[int], tuple[Refinement, ...]]] = [(each, ()) for each in drops if len(each) == 1]
        options = [self.own] * len(bases)
        if add:
            bases += [(frozenset(), (each,)) for each in self.own]
            options += [self.own[place + 1 :] for place in range(len(self.own))]
        for start in range(0, len(bases), _BATCH):
            if monotonic() > until:
                return edits, False
            edits += self._refined(bases[start : start + _BATCH], options[start : start + _BATCH])
        return edits, True

    def _searched(self, drops: Sequence[frozenset[int]]) -> Iterator[Edit]:
        queries = [self._without(each) for each in drops]
        self.tried += len(queries)
        for dropped, query, hits in zip(drops, queries, self.engine.search_many(queries, self.k), strict=True):
            ids = [hit.id for hit in hits]
            if self.wanted.issubset(ids):
                yield self._edit(dropped, (), query, ids)

    def _refined(
        self,
        bases: Sequence[tuple[frozenset[int], tuple[Refinement, ...]]],
        options: Sequence[Sequence[Refinement]],
    ) -> list[Edit]:
        queries = [self._without(dropped).refine(*added) for dropped, added in bases]
        edits = []
        lists = refine_many(self.engine, queries, options, self.k)
        for (dropped, added), query, tried, hit_lists in zip(bases, queries, options, lists, strict=True):
            self.tried += len(tried)
            for place in self._worth_making(hit_lists, tried):
                ids = [hit.id for hit in hit_lists[place]]
                if self.wanted.issubset(ids):
                    last = tried[place]
                    edits.append(self._edit(dropped, (*added, last), query.refine(last), ids))
        return edits

    def _worth_making(self, lists: Sequence[Sequence[Hit]], tried: Sequence[Refinement]) -> Iterable[int]:
        """Places of the lists that hold what is wanted and, with ties, are the best by the first parts of `Edit.size`.

        By arrays where the engine has them: hundreds of lists may hold the passage, and a few are shown.
        """
        if not (isinstance(lists, HitLists) and isinstance(self.engine, ScoresAll)):
            return [place for place, hits in enumerate(lists) if any(hit.id == self.passage.id for hit in hits)]
        number_of = self.engine.number_of
        numbers = np.where(np.arange(lists.numbers.shape[1]) < lists.counts[:, None], lists.numbers, -1)
        wanted = np.all([(numbers == number_of(each)).any(axis=1) for each in self.wanted], axis=0)
        places = np.flatnonzero(wanted)
        left = -np.isin(numbers[places], [number_of(each) for each in self.top]).sum(axis=1)
        sizes = list(zip(left.tolist(), [round(_strength(tried[each]), 6) for each in places.tolist()], strict=True))
        most = sorted(sizes)[: self.best][-1:]
        return [place for place, size in zip(places.tolist(), sizes, strict=True) if [size] <= most]

    def _without(self, dropped: frozenset[int]) -> Query:
        left = [each for place, each in enumerate(self.query.refinements) if place not in dropped]
        return Query(self.query.question, tuple(left))

    def _edit(self, dropped: frozenset[int], added: tuple[Refinement, ...], query: Query, ids: list[str]) -> Edit:
        return Edit(
            tuple(self.query.refinements[place] for place in sorted(dropped)), added, query,
            ids.index(self.passage.id) + 1, tuple(id for id in ids if id not in self.top),
            tuple(id for id in self.top if id not in ids), sum(map(self._rarity, added)),
        )  # fmt: skip

    def _rarity(self, refinement: Refinement) -> float:
        key = refinement.field, refinement.term
        if key not in self._idf:
            self._idf[key] = self.engine.idf(*key)
        return self._idf[key]


def _drops(refinements: int, changes: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, changes + 1):
        yield from combinations(range(refinements), size)
