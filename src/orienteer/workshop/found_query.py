"""A found query as data, and as text for people and for other search engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from orienteer.query import Field, Query, Refinement

Occur = Literal["should", "must", "must_not"]


class Clause(NamedTuple):
    """A clause of a found query; a term of several words is a phrase. Only an optional clause has a boost."""

    occur: Occur
    field: Field
    term: str
    boost: float = 1.0

    @property
    def refinement(self) -> Refinement:
        match self.occur:
            case "must":
                return Refinement("+", self.field, self.term)
            case "must_not":
                return Refinement("-", self.field, self.term)
        if self.field == "contents" and self.boost == 1.0:
            return Refinement("or", "contents", self.term)
        return Refinement("^", self.field, self.term, self.boost)


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts over all matches of a query; `f` is F-beta.

    matches    passages that the query returns, without those held out
    relevant   wanted passages among them
    rejected   passages named as not relevant among them
    value      the objective of the search, where it is not `f`
    """

    f: float
    precision: float
    recall: float
    matches: int
    relevant: int
    rejected: int = 0
    value: float | None = None


@dataclass(frozen=True, slots=True)
class FoundQuery:
    """A query of the Pareto front, and what it matches.

    held_out   the share of the passages held out that it matches; where the objective is a ranking's, that objective
               with the passages held out as the wanted ones
    """

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
        """As reviewers write it: `("x ray" OR title:radiation) NOT (film OR novel)`. It has no boosts."""
        groups: dict[Occur, list[str]] = {"should": [], "must": [], "must_not": []}
        for occur, field, term, _ in self.clauses:
            text = term if _is_word(term) else f'"{term}"'
            groups[occur].append(f"title:{text}" if field == "title" else text)
        wanted = " AND ".join(groups["must"]) or " OR ".join(groups["should"])
        if not groups["must_not"]:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(groups['must_not'])})"

    def opensearch(self, contents: str = "contents", title: str = "title") -> dict[str, Any]:
        """The body of a search of OpenSearch or Elasticsearch; the arguments are the names of its fields."""
        names = {"contents": contents, "title": title}
        groups: dict[str, list[dict[str, Any]]] = {}
        for occur, field, term, boost in self.clauses:
            kind = "match" if _is_word(term) else "match_phrase"
            body: Any = term if boost == 1.0 else {"query": term, "boost": boost}
            groups.setdefault(occur, []).append({kind: {names[field]: body}})
        if "should" in groups and "must" not in groups:
            return {"query": {"bool": {**groups, "minimum_should_match": 1}}}
        return {"query": {"bool": groups}}


def _is_word(term: str) -> bool:
    """Whether it can stand without quotes: not several words, not an operator of reviewers' queries."""
    return term.isalnum() and term.upper() not in ("AND", "OR", "NOT")
