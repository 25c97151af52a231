"""Refinements looked at in a pool: the service's lists where the pool holds their documents, and few searches."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_opensearch_engine import DOCUMENTS, THEIRS, Reader, loaded, made

from orienteer.bundled import bundled_passages, bundled_questions
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings, connect
from orienteer.engine.adapters.opensearch.pool import PooledEngine
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.open import open_engine
from orienteer.query import FIELDS, G4, Query, Refinement


@pytest.fixture(scope="module")
def remote(start) -> OpenSearchEngine:
    return loaded(start(), bundled_passages(), shards=2)


def options(engine: Any, query: Query, count: int, seed: int) -> list[Refinement]:
    """Refinements of words of the query's best passages, as an agent has them."""
    found = engine.passages([hit.id for hit in engine.search(query, 5)])
    words = sorted({word for passage in found for word in analyze(passage.contents)})
    every = [each for word in words for field in FIELDS for each in G4.refinements(field, word)]
    return random.Random(seed).sample(every, min(count, len(every)))


def states(engine: Any, count: int) -> list[tuple[Query, list[Refinement]]]:
    found = []
    for number, question in enumerate(bundled_questions("train")[:count]):
        query = Query(question.question)
        first = options(engine, query, 200, number)
        found.append((query, first))
        later = query.refine(first[0]).refine(first[1])
        if engine.search(later, 1):
            found.append((later, options(engine, later, 100, number)))
    return found


def test_a_pool_of_everything_gives_the_services_lists(remote) -> None:
    """Scores are sums of the same numbers, rounded in another order."""
    pooled = PooledEngine(remote, depth=len(bundled_passages()), holding=100)
    for query, refinements in states(remote, 4):
        wanted = remote.refine(query, refinements, 5)
        for refinement, hits, exact in zip(refinements, pooled.refine(query, refinements, 5), wanted, strict=True):
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in exact], rel=1e-5), str(refinement)


def test_a_small_pool_finds_nearly_all_of_the_services_hits_with_one_search_a_word(remote) -> None:
    pooled = PooledEngine(remote)
    same = every = searches = 0
    for query, refinements in states(remote, 4):
        wanted = remote.refine(query, refinements, 5)
        before = remote._service.counters.searches
        for hits, exact in zip(pooled.refine(query, refinements, 5), wanted, strict=True):
            same += len({hit.id for hit in hits} & {hit.id for hit in exact})
            every += len(exact)
        sent = remote._service.counters.searches - before
        searches += sent
        assert sent <= 2 + len({(each.field, each.term) for each in refinements}), "ties of the question, asked again"
    assert same >= 0.98 * every > 500


def test_what_was_asked_for_a_query_is_not_asked_again(remote) -> None:
    pooled, (query, refinements) = PooledEngine(remote), states(remote, 1)[0]
    first = pooled.refine(query.refine(refinements[0]), refinements[1:], 5)
    before = remote._service.counters.searches
    assert pooled.refine(query.refine(refinements[0]), refinements[1:], 5) == first
    assert remote._service.counters.searches == before


def test_a_session_begins_with_a_fresh_pool_since_the_index_may_have_changed(start) -> None:
    engine = loaded(start(), bundled_passages()[:50])
    pooled, query = PooledEngine(engine), Query("rover")
    pooled.refine(query, [Refinement("or", "contents", "comet")], 5)
    text, order = "rover comet " * 9, engine._service.settings.names.order
    document = {"contents": text, "text": text, order: 50}
    engine._service.create([("new", document)])
    engine._service.ask("POST", "/_refresh")
    [hits] = pooled.refine(query, [Refinement("or", "contents", "comet")], 5)
    assert hits[0].id == "new"


def test_an_index_with_an_analyser_of_its_own_is_scored_by_its_terms(start) -> None:
    engine = connect(made(start(), "stemmed", "english", DOCUMENTS), THEIRS)
    pooled, query = PooledEngine(engine), Query("sea")
    refinements = [Refinement("+", "contents", "rivers"), Refinement("-", "title", "running"),
                   Refinement("^", "contents", "bridges", 4.0), Refinement("or", "contents", "the")]  # fmt: skip
    for hits, exact in zip(pooled.refine(query, refinements, 5), engine.refine(query, refinements, 5), strict=True):
        assert {hit.id: hit.score for hit in hits} == pytest.approx({hit.id: hit.score for hit in exact}, rel=0.1)


def test_sessions_over_a_pool_send_few_searches_and_their_hits_are_the_services(remote, monkeypatch) -> None:
    from orienteer.agents import make_agent
    from orienteer.session import Environment, Settings, run_sessions

    monkeypatch.setenv("ORIENTEER_SEARCH_TIMEOUT", "600")  # the machine may be busy
    pooled = open_engine(f"pool:{remote._service.address}")
    assert isinstance(pooled, PooledEngine)
    entry = make_agent("pointer", pooled, Settings(steps=2))
    run = run_sessions(Environment(pooled, Reader(), entry.settings), entry.agent, bundled_questions("train")[:2])
    for session in run.sessions:
        assert len(session.steps) == 3
        for step in session.steps[1:]:
            assert list(step.hits) == remote.search(step.query, 5)
    assert pooled._engine._service.counters.searches < 600, "some 2,000 without a pool"


def test_a_session_without_budget_looks_at_what_the_pool_holds(remote) -> None:
    settings = ServiceSettings(timeout=600, budget=1)
    pooled = PooledEngine(connect(str(remote._service.address), settings))
    query, refinements = states(remote, 1)[0]
    before = pooled.counters.searches
    lists = pooled.refine(query, refinements, 5)
    assert pooled.counters.searches - before <= 2, "the question's own"
    assert sum(map(len, lists)) > 100


def test_an_agent_whose_budget_is_spent_goes_on_without_looking(remote) -> None:
    from orienteer.agents import make_agent
    from orienteer.session import Environment, Settings, run_sessions

    engine = connect(str(remote._service.address), ServiceSettings(timeout=600, budget=1))
    entry = make_agent("pointer", engine, Settings(steps=2))
    before = engine.counters.searches
    run = run_sessions(Environment(engine, Reader(), entry.settings), entry.agent, bundled_questions("train")[:2])
    assert [len(session.steps) for session in run.sessions] == [3, 3]
    assert engine.counters.searches - before < 30
