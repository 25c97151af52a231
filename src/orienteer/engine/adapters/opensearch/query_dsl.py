"""Queries in the service's query DSL: a `bool` of `must`, `should` and `must_not`.

Clauses are joined before they are sent, as Lucene joins them: the same text twice is one clause with the boosts added,
and a clause of stop words is none. A single term is a `term`, several are a `match_phrase`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from orienteer.engine.adapters.opensearch.analysis import Analysis, PositionedTerms
from orienteer.engine.adapters.opensearch.settings import FieldNames
from orienteer.errors import TooManyClausesError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

# A shard that has no word of a phrase leaves its passages out of the field's statistics (PhraseQuery asks for them only
# where a word is there; TermQuery always does). A term that no passage has makes it count them.
COUNTED_BY = "\ue000orienteer"

OCCUR = {"or": "should", "^": "should", "+": "must", "-": "must_not"}


@dataclass(frozen=True, slots=True)
class ClauseKey:
    """What a clause looks for: terms at places, in a field."""

    field: str
    terms: PositionedTerms


Group: TypeAlias = dict[ClauseKey, tuple[str, float]]  # each text with the words it was written in, and its boost


class QueryBuilder:
    """Builds DSL queries for one index.

    `factors`: by what each field's similarity multiplies a boost. Lucene's BM25 was once (k1 + 1) times what it is
    now, and Elasticsearch and OpenSearch 2 kept that; boosts are sent smaller by it, and scores come out as Lucene's.
    `shards`: those of the index; with more than one, every searched field's statistics are asked of each.
    """

    def __init__(self, names: FieldNames, analysis: Analysis, factors: Mapping[str, float], shards: int = 1):
        self._names, self._analysis = names, analysis
        self._factors, self._shards = factors, shards

    def build(self, query: Query) -> dict[str, Any] | None:
        """None for a query that can match nothing: one without any clause that finds a passage."""
        return self._built(*self._clauses(query))

    def build_each(self, query: Query, refinements: Sequence[Refinement]) -> list[dict[str, Any] | None]:
        """`build(query.refine(r))` for each r; the query's own part is worked out once."""
        base, count = self._clauses(query)
        extras = self._texts(refinements)
        built = []
        for refinement, terms in zip(refinements, extras, strict=True):
            groups = {occur: dict(group) for occur, group in base.items()}
            _add_refinement(groups, refinement, terms)
            built.append(self._built(groups, count + bool(terms)))
        return built

    def _clauses(self, query: Query) -> tuple[dict[str, Group], int]:
        """The query's clauses by kind, and how many there were before equal ones were joined."""
        groups: dict[str, Group] = {"must": {}, "should": {}, "must_not": {}}
        [question] = self._analysis.positioned_terms("contents", [query.question])
        for _, term in question:
            _add(groups["should"], ClauseKey("contents", ((0, term),)), term, 1.0)
        extras = self._texts(query.refinements)
        for refinement, terms in zip(query.refinements, extras, strict=True):
            _add_refinement(groups, refinement, terms)
        return groups, len(question) + sum(map(bool, extras))

    def _texts(self, refinements: Sequence[Refinement]) -> list[PositionedTerms]:
        found: dict[tuple[str, str], PositionedTerms] = {}
        for field in ("contents", "title"):
            texts = list(dict.fromkeys(r.term for r in refinements if r.field == field))
            if texts:
                positioned_terms = self._analysis.positioned_terms(field, texts)
                found.update(((field, text), terms) for text, terms in zip(texts, positioned_terms, strict=True))
        return [found[refinement.field, refinement.term] for refinement in refinements]

    def _built(self, groups: Mapping[str, Group], count: int) -> dict[str, Any] | None:
        if count > MAX_CLAUSES:
            raise TooManyClausesError(
                f"the query has {count} clauses, at most {MAX_CLAUSES} are allowed; shorten the question"
            )
        if not groups["must"] and not groups["should"]:
            return None  # the service would add every passage to a query of exclusions only
        clauses = {
            occur: [self._clause(text, words, boost) for text, (words, boost) in group.items()]
            for occur, group in groups.items()
            if group
        }
        if uncounted := self._uncounted(groups):
            clauses.setdefault("should", []).extend(
                {"term": {name: {"value": COUNTED_BY}}}
                for field in uncounted
                for name, _ in self._names.weighted(field)
            )
        return {"bool": clauses}

    def _uncounted(self, groups: Mapping[str, Group]) -> list[str]:
        """Fields that are searched for phrases only, in an index of several shards."""
        scored = [] if self._shards == 1 else [key for occur in ("must", "should") for key in groups[occur]]
        counted = {key.field for key in scored if len(key.terms) == 1}
        return sorted({key.field for key in scored} - counted)

    def _clause(self, text: ClauseKey, words: str, boost: float) -> dict[str, Any]:
        """One clause; over several fields, the sum of theirs with their weights."""
        factor = self._factors.get(text.field, 1.0)
        clauses: list[dict[str, Any]] = []
        for name, weight in self._names.weighted(text.field):
            sent = boost_to_send(np.float32(boost * weight), factor)
            if len(text.terms) == 1:
                clauses.append({"term": {name: {"value": text.terms[0][1], "boost": sent}}})
            else:
                clauses.append({"match_phrase": {name: {"query": words, "boost": sent}}})
        return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def _add_refinement(groups: dict[str, Group], refinement: Refinement, terms: PositionedTerms) -> None:
    if terms:
        _add(groups[OCCUR[refinement.op]], ClauseKey(refinement.field, terms), refinement.term, refinement.weight)


def _add(group: Group, text: ClauseKey, words: str, boost: float) -> None:
    first, sum_so_far = group.get(text, (words, 0.0))
    group[text] = first, sum_so_far + float(np.float32(boost))


def boost_to_send(boost: np.float32, factor: float) -> float:
    """The float32 that the service's factor turns into `boost`, exactly where one exists, else as near as can be."""
    if factor == 1.0:
        return float(boost)
    times = np.float32(factor)
    near = boost / times
    around = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
    return float(min(around, key=lambda sent: abs(float(sent * times) - float(boost))))
