"""Optional abilities: which engine has which, and the same results with and without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orienteer.bundled import bundled_passages
from orienteer.engine import EmbeddedEngine, ReferenceEngine, build_index, open_index
from orienteer.engine.hits import HitLists, concatenate, distinct_hits, take
from orienteer.engine.protocol import (
    Engine,
    Explains,
    HasFingerprint,
    RefinesMany,
    StoresPassages,
    StoresTerms,
    fingerprint_of,
    refine_many,
)
from orienteer.engine.sharded.engine import ShardedEngine, open_shards
from orienteer.query import G4, Query

PASSAGES = bundled_passages()[:120]
QUERIES = [Query("river city"), Query("first war")]
REFINEMENTS = [
    [r for word in words for r in G4.refinements("contents", word)] for words in (("king", "sea"), ("born", "music"))
]
K = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexes")


@pytest.fixture(scope="module")
def embedded(folder: Path) -> EmbeddedEngine:
    build_index(PASSAGES, folder / "whole", threads=1)
    return open_index(folder / "whole", threads=1)


@pytest.fixture(scope="module")
def sharded(folder: Path) -> ShardedEngine:
    for name, part in (("a", PASSAGES[:50]), ("b", PASSAGES[50:])):
        build_index(part, folder / name, threads=1)
    return open_shards([folder / "a", folder / "b"])


@pytest.fixture(scope="module", params=["embedded", "sharded", "reference"])
def engine(request: pytest.FixtureRequest, embedded: EmbeddedEngine, sharded: ShardedEngine) -> Engine:
    return {"embedded": embedded, "sharded": sharded, "reference": ReferenceEngine(PASSAGES)}[request.param]


def test_an_engine_has_the_abilities_whose_methods_it_has(embedded: EmbeddedEngine, sharded: ShardedEngine) -> None:
    abilities = (HasFingerprint, RefinesMany, Explains, StoresTerms, StoresPassages)
    assert [isinstance(embedded, ability) for ability in abilities] == [True] * 5
    assert [isinstance(sharded, ability) for ability in abilities] == [True, True, False, False, False]
    assert not any(isinstance(ReferenceEngine(PASSAGES), ability) for ability in abilities)


def test_an_engine_without_a_fingerprint_has_an_empty_one(embedded: EmbeddedEngine) -> None:
    assert fingerprint_of(embedded) == embedded.fingerprint != ""
    assert fingerprint_of(ReferenceEngine(PASSAGES)) == ""


def test_refining_many_queries_is_refining_each(engine: Engine) -> None:
    together = refine_many(engine, QUERIES, REFINEMENTS, K)
    assert [[list(hits) for hits in lists] for lists in together] == [
        [list(hits) for hits in engine.refine(query, refinements, K)]
        for query, refinements in zip(QUERIES, REFINEMENTS, strict=True)
    ]


def test_lists_of_any_engine_are_taken_and_joined_by_row(engine: Engine) -> None:
    first, second = (engine.refine(QUERIES[0], refinements, K) for refinements in REFINEMENTS)
    both = concatenate(first, second)
    assert [list(hits) for hits in both] == [list(hits) for hits in (*first, *second)]
    rows = [len(first), 1, 0]
    assert [list(hits) for hits in take(both, rows)] == [list(both[row]) for row in rows]


def test_distinct_hits_are_the_same_from_arrays_and_from_lists(engine: Engine) -> None:
    lists = engine.refine(QUERIES[0], REFINEMENTS[0], K)
    ids, places = distinct_hits(lists, K + 1)
    assert places.shape == (len(lists), K + 1)
    assert len(set(ids)) == len(ids)
    assert [[ids[place] for place in row if place >= 0] for row in places.tolist()] == [
        [hit.id for hit in hits] for hits in lists
    ]
    other_ids, other_places = distinct_hits([list(hits) for hits in lists], K + 1)
    assert ids == other_ids
    assert np.array_equal(places, other_places)


def test_lists_over_one_index_stay_arrays(embedded: EmbeddedEngine) -> None:
    first, second = (embedded.refine(QUERIES[0], refinements, K) for refinements in REFINEMENTS)
    assert isinstance(concatenate(first, second), HitLists)


def test_stored_terms_are_those_of_the_analyser(embedded: EmbeddedEngine) -> None:
    totals = np.zeros(embedded.vocabulary_size)
    for number, passage in enumerate(PASSAGES):
        terms = embedded.passage_terms(passage.id)
        assert [embedded.term(term) for term in terms.tolist()] == embedded.analyze(passage.contents)
        assert embedded.passage_at(number) == passage
        assert embedded.id_at(number) == passage.id
        np.add.at(totals, terms, 1)
    assert len(embedded) == len(PASSAGES)
    shares = [embedded.term_probability(number) for number in range(embedded.vocabulary_size)]
    assert shares == pytest.approx((totals / totals.sum()).tolist())
    words = [embedded.term(number) for number in range(50)]
    assert embedded.term_numbers([*words, "no such term"]) == [*range(50), -1]
    assert [embedded.term_idf(number) for number in range(50)] == [embedded.idf("contents", word) for word in words]
    assert embedded.passage_terms("no such passage").size == 0
