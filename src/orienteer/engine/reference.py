"""The slow, obvious engine: what every operator means, on one page, for the fast engines to be tested by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze_terms
from orienteer.engine.protocol import Hit
from orienteer.errors import DuplicateIdError, TooManyClausesError, UnknownFieldError, UnknownPassageError
from orienteer.query import FIELDS, Field, Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

Occur = Literal["must", "should", "must_not"]
Offsets = tuple[tuple[int, str], ...]  # the terms of a clause and their places, the first at 0


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of a query that an engine can look up: a term, or several as a phrase."""

    occur: Occur
    field: Field
    terms: Offsets


def clauses(query: Query) -> dict[Clause, np.float32]:
    """The clauses of a query and their boosts; boosts of equal clauses are added, as Lucene adds them."""
    found: list[tuple[Clause, float]] = []
    for word in query.question.split():  # Lucene's parser analyses word by word: "x-y" is two clauses
        found += [(Clause("should", "contents", ((0, term),)), 1.0) for _, term in _placed(word)]
    for refinement in query.refinements:
        if terms := _placed(refinement.term):  # a refinement of stop words alone disappears
            first, _ = terms[0]
            offsets = tuple((place - first, term) for place, term in terms)
            found.append((Clause(_occur(refinement), refinement.field, offsets), refinement.weight))
    if len(found) > MAX_CLAUSES:
        raise TooManyClausesError(
            f"the query has {len(found)} clauses once analysed, at most {MAX_CLAUSES} are allowed; shorten the question"
        )
    boosts: dict[Clause, float] = defaultdict(float)
    for clause, boost in found:
        boosts[clause] += float(np.float32(boost))
    return {clause: np.float32(boost) for clause, boost in boosts.items()}


def _placed(text: str) -> list[tuple[int, str]]:
    """The index terms of a text with their positions; a removed stop word leaves its position empty."""
    return [(place, term) for place, term in enumerate(analyze_terms(text)) if term is not None]


def _occur(refinement: Refinement) -> Occur:
    return "must" if refinement.op == "+" else "must_not" if refinement.op == "-" else "should"


class ReferenceEngine:
    """Lucene's answers worked out the plain way; for tests, and for collections of some thousands."""

    def __init__(self, passages: Iterable[Passage]):
        self._passages = list(passages)
        self._number = {passage.id: number for number, passage in enumerate(self._passages)}
        if len(self._number) < len(self._passages):
            twice = next(p.id for number, p in enumerate(self._passages) if self._number[p.id] != number)
            raise DuplicateIdError(f"two passages have the id {twice!r}; give each its own")
        self._fields = {
            "contents": _FieldIndex([passage.contents for passage in self._passages]),
            "title": _FieldIndex([passage.title for passage in self._passages]),
        }

    def search(self, query: Query, k: int) -> list[Hit]:
        scores: dict[Occur, list[dict[int, np.float32]]] = {"must": [], "should": [], "must_not": []}
        for clause, boost in clauses(query).items():
            scores[clause.occur].append(self._fields[clause.field].scores(clause.terms, boost))
        must, should = scores["must"], scores["should"]
        found = set(must[0]).intersection(*must) if must else set().union(*should)
        found = found.difference(*scores["must_not"])
        # Rounded twice: the required clauses' sum and the optional ones', then the sum of both.
        total = {number: _sum(must, number) + _sum(should, number) for number in found}
        best = sorted(total, key=lambda number: (-total[number], number))[: max(0, k)]
        return [Hit(self._passages[number].id, float(total[number])) for number in best]

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return [self.search(query.refine(refinement), k) for refinement in refinements]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        for id in ids:
            if id not in self._number:
                raise UnknownPassageError(f"no passage has the id {id!r}; expected ids as search gives them")
        return [self._passages[self._number[id]] for id in ids]

    def idf(self, field: str, term: str) -> float:
        if field not in FIELDS:
            raise UnknownFieldError(f"unknown field {field!r}; expected {' or '.join(FIELDS)}")
        return float(self._fields[field].idf(term))

    def analyze(self, text: str) -> list[str]:
        return [term for _, term in _placed(text)]


class _FieldIndex:
    """One field of every passage: where each term stands, and the field's statistics."""

    def __init__(self, texts: Sequence[str]):
        self.places: dict[str, dict[int, set[int]]] = defaultdict(dict)  # term -> passage -> positions
        lengths = np.zeros(len(texts), dtype=np.int64)
        for number, text in enumerate(texts):
            for place, term in _placed(text):
                self.places[term].setdefault(number, set()).add(place)
                lengths[number] += 1
        self.doc_count = int(np.count_nonzero(lengths))  # a field without a term is not there
        cache = bm25.norm_cache(int(lengths.sum()), self.doc_count)
        self.inverse_norms = [cache[bm25.encode_length(int(length))] for length in lengths]

    def idf(self, term: str) -> np.float32:
        return bm25.idf(self.doc_count, len(self.places.get(term, ())))

    def scores(self, terms: Offsets, boost: np.float32) -> dict[int, np.float32]:
        """The score of every passage in which the terms stand at these distances from one another."""
        weight = boost * np.float32(sum(float(self.idf(term)) for _, term in terms))
        places = [self.places.get(term, {}) for _, term in terms]
        scores = {}
        for number in set(places[0]).intersection(*places):
            starts = [{p - offset for p in at[number]} for at, (offset, _) in zip(places, terms, strict=True)]
            if freq := len(set.intersection(*starts)):
                scores[number] = bm25.term_score(weight, freq, self.inverse_norms[number])
        return scores


def _sum(clause_scores: list[dict[int, np.float32]], number: int) -> np.float32:
    """Float32 scores added in double, rounded once."""
    return np.float32(sum(float(scores[number]) for scores in clause_scores if number in scores))
