"""`why_not` against trying every edit by a search of its own, and its explanation against the engine's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_corpora import corpora, opened, queries

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.errors import UnknownPassageError
from orienteer.query import Query, Refinement, parse
from orienteer.workshop.why_not import Edit, WhyNotError, own_refinements, why_not

SOME = settings(max_examples=settings().max_examples // 5)  # tries every pair of refinements
FEW = settings(max_examples=settings().max_examples // 5)  # each example builds an index


def every_edit(
    slow: ReferenceEngine, query: Query, passage: Passage, k: int, changes: int, keep: frozenset[str]
) -> Iterator[Edit]:
    """All edits of so many changes with which the query finds the passage, one search each."""
    top = [hit.id for hit in slow.search(query, k)]
    own = own_refinements(slow, passage)
    for drops in range(changes + 1):
        for dropped in combinations(range(len(query.refinements)), drops):
            left = [each for place, each in enumerate(query.refinements) if place not in dropped]
            for added in combinations(own, changes - drops):
                changed = Query(query.question, (*left, *added))
                ids = [hit.id for hit in slow.search(changed, k)]
                if passage.id in ids and keep.issubset(ids):
                    yield Edit(
                        tuple(query.refinements[place] for place in dropped), added, changed,
                        ids.index(passage.id) + 1, tuple(id for id in ids if id not in top),
                        tuple(id for id in top if id not in ids),
                        sum(slow.idf(each.field, each.term) for each in added),
                    )  # fmt: skip


def minimal(slow: ReferenceEngine, query: Query, passage: Passage, k: int, keep: frozenset[str]) -> Edit | None:
    for changes in (1, 2):
        if edits := list(every_edit(slow, query, passage, k, changes, keep)):
            return min(edits, key=lambda edit: edit.size)
    return None


@SOME
@given(corpora, queries, st.integers(1, 3), st.integers(0, 20), st.booleans())
def test_the_first_edit_is_minimal_among_all_edits(
    passages: list[Passage], query: Query, k: int, which: int, keeps: bool
) -> None:
    slow, passage = ReferenceEngine(passages), passages[which % len(passages)]
    top = [hit.id for hit in slow.search(query, k)]
    assume(passage.id not in top)
    keep = frozenset(top[:1]) if keeps else frozenset()
    expected = minimal(slow, query, passage, k, keep)
    engine = opened(passages)
    result = why_not(engine, query, passage.id, k=k, keep=keep)
    assert result.complete
    assert (result.edits[0] if result.edits else None) == expected


@FEW
@given(corpora, queries, st.integers(1, 3), st.integers(0, 20))
def test_an_engine_without_abilities_gives_the_same_edits(
    passages: list[Passage], query: Query, k: int, which: int
) -> None:
    passage = passages[which % len(passages)]
    fast = why_not(opened(passages), query, passage.id, k=k)
    slow = why_not(ReferenceEngine(passages), query, passage.id, k=k)
    assert fast.edits == slow.edits
    assert fast.rank == slow.rank


@FEW
@given(corpora, queries)
def test_all_scores_are_those_of_a_search_for_everything(passages: list[Passage], query: Query) -> None:
    engine = opened(passages)
    scores = engine.scores(query)
    expected = np.full(len(passages), -np.inf, np.float32)
    for hit in ReferenceEngine(passages).search(query, len(passages)):
        expected[engine.number_of(hit.id)] = hit.score
    assert scores.tolist() == expected.tolist()


@pytest.fixture(scope="module")
def engine() -> EmbeddedEngine:
    return bundled_engine()


def test_rank_and_score_are_those_of_the_whole_ranking(engine: EmbeddedEngine) -> None:
    for question in bundled_questions("train")[:20]:
        query = Query(question.question)
        hits = list(engine.search(query, len(engine)))
        result = why_not(engine, query, hits[-1].id, k=3, changes=0)
        assert (result.rank, result.score) == (len(hits), hits[-1].score)
        assert result.kth == hits[2]


def test_edits_bring_the_passage_into_the_top_k_and_say_what_moves(engine: EmbeddedEngine) -> None:
    query = Query("first isolated metal")
    hits = list(engine.search(query, 60))
    result = why_not(engine, query, hits[-1].id, k=5, keep=[hits[0].id])
    assert result.edits
    for edit in result.edits:
        ids = [hit.id for hit in engine.search(edit.query, 5)]
        assert ids[edit.rank - 1] == hits[-1].id
        assert hits[0].id in ids
        assert set(edit.left) == {hit.id for hit in hits[:5]} - set(ids)
        assert set(edit.entered) == set(ids) - {hit.id for hit in hits[:5]}


def test_a_clause_that_shuts_the_passage_out_is_named_and_dropped() -> None:
    engine = opened([Passage("a", "", "green frog"), Passage("b", "", "blue frog"), Passage("c", "", "green bird")])
    result = why_not(engine, parse("frog +contents:green"), "b", k=1)
    assert result.blocked_by == ("+contents:green",)
    assert not result.matches
    assert result.rank is None
    best = result.edits[0]
    assert best.dropped == (Refinement("+", "contents", "green"),)
    assert [hit.id for hit in engine.search(best.query, 1)] == ["b"]
    excluded = why_not(engine, parse("frog -contents:blue"), "b", k=3)
    assert excluded.blocked_by == ("-contents:blue",)
    assert str(excluded.edits[0]) == 'drop -(contents:"blue")'


def test_missing_terms_and_lengths_are_told() -> None:
    engine = opened([Passage("a", "", "green frog"), Passage("b", "", "blue frog in a long old pond")])
    result = why_not(engine, Query("green frog"), "b", k=1)
    assert result.missing == ("green",)
    assert (result.length, result.kth_length) == (5, 2)
    green, frog = result.clauses
    assert (green.frequency, green.kth_frequency) == (0, 1)
    assert frog.kth_score > frog.score > 0


def test_a_passage_that_is_found_needs_no_edit(engine: EmbeddedEngine) -> None:
    query = Query("first isolated metal")
    result = why_not(engine, query, engine.search(query, 1)[0].id)
    assert result.found
    assert result.edits == ()
    assert result.tried == 0


def test_what_cannot_be_explained_is_one_clear_error(engine: EmbeddedEngine) -> None:
    with pytest.raises(UnknownPassageError, match="nowhere"):
        why_not(engine, Query("metal"), "nowhere")
    far = list(engine.search(Query("first isolated metal"), 60))[-1].id
    with pytest.raises(WhyNotError, match="cannot keep"):
        why_not(engine, Query("metal"), far, k=3, keep=[far])
    with pytest.raises(WhyNotError, match="3 changes"):
        why_not(engine, Query("metal"), far, changes=3)
