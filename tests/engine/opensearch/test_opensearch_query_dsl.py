"""Queries in the services' language."""

from __future__ import annotations

import numpy as np
import pytest

from orienteer.engine.adapters.opensearch.analysis import LocalAnalysis
from orienteer.engine.adapters.opensearch.query_dsl import COUNTED_BY, QueryBuilder, boost_to_send
from orienteer.engine.adapters.opensearch.settings import FieldNames
from orienteer.errors import TooManyClausesError
from orienteer.query import BOOSTS, Query, Refinement, parse

NAMES = FieldNames("body", "head")


def builder(**factors: float) -> QueryBuilder:
    return QueryBuilder(NAMES, LocalAnalysis(), factors)


def term(field: str, value: str, boost: float = 1.0) -> dict:
    return {"term": {field: {"value": value, "boost": boost}}}


def test_operators_become_clauses_of_a_bool() -> None:
    query = parse('Who sang +(title:"Muppet") -(contents:"trash") (title:"green"^4) "song"')
    assert builder().build(query) == {
        "bool": {
            "should": [term("body", "who"), term("body", "sang"), term("head", "green", 4.0), term("body", "song")],
            "must": [term("head", "muppet")],
            "must_not": [term("body", "trash")],
        }
    }


def test_equal_clauses_are_joined_and_their_boosts_added() -> None:
    query = parse('song song +(contents:"song") (contents:"Song"^0.1)')
    assert builder().build(query) == {
        "bool": {
            "should": [term("body", "song", float(np.float32(2 + float(np.float32(0.1)))))],
            "must": [term("body", "song")],
        }
    }


def test_a_phrase_is_a_match_phrase_in_the_words_it_was_written_in() -> None:
    built = builder().build(parse('+(title:"Queen of England")'))
    assert built == {"bool": {"must": [{"match_phrase": {"head": {"query": "Queen of England", "boost": 1.0}}}]}}


def test_every_shard_is_asked_for_the_statistics_of_a_field_that_only_a_phrase_searches() -> None:
    sharded, counting = QueryBuilder(NAMES, LocalAnalysis(), {}, shards=2), {"term": {"head": {"value": COUNTED_BY}}}
    built = sharded.build(parse('who +(title:"Queen of England")'))
    assert built is not None
    assert built["bool"]["should"] == [term("body", "who"), counting]
    for counted in ('who +(title:"Queen of England") (title:"song"^2)', 'who -(title:"Queen of England")'):
        assert sharded.build(parse(counted)) == builder().build(parse(counted))


def test_a_phrase_of_one_term_and_stop_words_is_a_term() -> None:
    assert builder().build(parse('+(title:"The Queen")')) == {"bool": {"must": [term("head", "queen")]}}


@pytest.mark.parametrize("query", ["", "the of", '-(contents:"trash")', 'the -(title:"trash")', '+(title:"the")'])
def test_a_query_that_finds_nothing_by_itself_is_not_sent(query) -> None:
    assert builder().build(parse(query)) is None


def test_refinements_are_rendered_as_the_refined_query() -> None:
    query = parse('who sang (title:"green"^4)')
    refinements = [
        Refinement("+", "title", "green"), Refinement("^", "title", "green", 0.1), Refinement("or", "contents", "sang"),
        Refinement("-", "contents", "a green song"), Refinement("+", "contents", "the"),
    ]  # fmt: skip
    for scale in ({}, {"contents": 2.2, "title": 2.2}):
        build = builder(**scale)
        assert build.build_each(query, refinements) == [build.build(query.refine(r)) for r in refinements]


def test_too_many_clauses_are_refused_once_analysed() -> None:
    question = " ".join(f"a{n}-b{n}" for n in range(512))
    assert builder().build(Query(question)) is not None
    with pytest.raises(TooManyClausesError, match="1025 clauses"):
        builder().build_each(Query(question), [Refinement("+", "contents", "more")])


def test_a_boost_is_sent_so_that_the_services_factor_makes_it_exact() -> None:
    exact = 0
    boosts = [1.0, *BOOSTS, *(1.0 + boost for boost in BOOSTS), 2.1, 3.0, 5.0]
    for boost in map(np.float32, boosts):
        sent = np.float32(boost_to_send(boost, 2.2))
        assert sent * np.float32(2.2) == pytest.approx(boost, rel=1e-7)
        exact += bool(sent * np.float32(2.2) == boost)
    assert exact >= len(boosts) - 2  # a float32 in eleven is no product of another with 2.2
    assert boost_to_send(np.float32(0.1), 1.0) == float(np.float32(0.1))
