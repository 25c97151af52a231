"""The embedded engine's `search` and `explain` against the reference engine: same passages, order and float32 bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orienteer.data.passage import Passage
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.protocol import Explanation
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import TooManyClausesError, UnknownFieldError, UnknownPassageError
from orienteer.query import BOOSTS, FIELDS, Query, Refinement, parse

WORDS = ["red", "green", "blue", "sea", "ship", "the", "of", "don't", "3.14", "x-ray", "東京"]
ASKED = [*WORDS, "Red", "absent"]
WEIGHTS = [*BOOSTS, 1.0, 0.37, 1000.0]


@st.composite
def corpora(draw: st.DrawFn) -> list[Passage]:
    """Some passages of few words: with and without titles, empty, repeating words, copies of one another."""
    short, text = st.lists(st.sampled_from(WORDS), max_size=3), st.lists(st.sampled_from(WORDS), max_size=9)
    rows = draw(st.lists(st.tuples(short, text, st.sampled_from([1, 1, 1, 2, 30])), max_size=10))
    copied = draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    return [
        Passage(f"p{number}", " ".join(title), " ".join(words * times))
        for number, (title, words, times) in enumerate([*rows, *copied])
    ]


TERMS = st.lists(st.sampled_from(ASKED), min_size=1, max_size=3).map(" ".join)


@st.composite
def refinements(draw: st.DrawFn) -> Refinement:
    op = draw(st.sampled_from(["or", "+", "-", "^"]))
    field = "contents" if op == "or" else draw(st.sampled_from(FIELDS))
    weight = draw(st.sampled_from(WEIGHTS)) if op == "^" else 1.0
    return Refinement(op, field, draw(TERMS), weight)


QUESTIONS = st.lists(st.sampled_from(ASKED), max_size=5).map(" ".join)
QUERIES = st.builds(Query, QUESTIONS, st.lists(refinements(), max_size=5).map(tuple))

FEW = settings(max_examples=settings().max_examples // 3)  # each example builds an index

Open = Callable[[Sequence[Passage]], EmbeddedEngine]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Makes an engine over an index of the passages."""

    def make(passages: Sequence[Passage]) -> EmbeddedEngine:
        folder: Path = tmp_path_factory.mktemp("index")
        build_index(passages, folder, threads=1)
        return open_index(folder, threads=1)

    return make


def reference(passages: Sequence[Passage]) -> ReferenceEngine:
    """A reference engine that remembers each clause's scores, for many queries of the same words."""
    engine = ReferenceEngine(passages)
    for field in engine._fields.values():
        field.scores = cache(field.scores)
    return engine


def total(explanation: Explanation) -> float:
    """The sum of the shares, rounded where Lucene rounds: required clauses, optional clauses, both."""
    must = math.fsum(share.score for share in explanation.shares if share.occur == "must")
    should = math.fsum(share.score for share in explanation.shares if share.occur == "should")
    return float(np.float32(must) + np.float32(should))


@pytest.mark.long
@FEW
@given(corpora(), st.lists(QUERIES, min_size=6, max_size=20), st.integers(1, 15))
def test_search_gives_the_references_hits(embedded, passages, queries, k) -> None:
    engine, slow = embedded(passages), reference(passages)
    for query in queries:
        wanted = slow.search(query, 1000)
        assert list(engine.search(query, k)) == wanted[:k], str(query)
        assert list(engine.search(query, 1000)) == wanted, str(query)
    assert [list(hits) for hits in engine.search_many(queries, k)] == slow.search_many(queries, k)


@pytest.mark.long
@FEW
@given(corpora(), st.lists(QUERIES, min_size=3, max_size=8))
def test_the_shares_of_an_explanation_add_up_to_the_score_of_every_hit(embedded, passages, queries) -> None:
    engine = embedded(passages)
    for query in queries:
        scores = dict(engine.search(query, 1000))
        for passage in passages:
            explanation = engine.explain(query, passage.id)
            assert explanation.matches == (passage.id in scores), str(query)
            assert explanation.score == scores.get(passage.id, 0.0), str(query)
            if explanation.matches:
                assert total(explanation) == explanation.score, str(query)


@pytest.mark.long
@FEW
@given(corpora(), st.sampled_from(FIELDS), st.sampled_from([*ASKED, "x", "ray"]))
def test_idf_and_stored_passages_are_the_references(embedded, passages, field, term) -> None:
    engine, slow = embedded(passages), ReferenceEngine(passages)
    assert engine.idf(field, term) == slow.idf(field, term)
    ids = [passage.id for passage in passages][::-1]
    assert engine.passages(ids) == slow.passages(ids)


@pytest.fixture(scope="module")
def large() -> list[Passage]:
    """More passages than a window of the search kernels holds, some long, many of them equal."""
    rng = random.Random(3)
    words = [f"w{n}" for n in range(60)]
    weights = [1 / (n + 1) for n in range(60)]

    def text(most: int) -> str:
        return " ".join(rng.choices(words, weights, k=rng.randint(0, most)))

    passages = [Passage(str(n), text(3), text(60 if n % 50 == 0 else 6)) for n in range(11_000)]
    # One word only at the ends, one in a stretch that fills no window, one in a single passage of the last.
    for number, word in [(0, "ends"), (10_999, "ends"), (10_990, "once"), *((n, "stretch") for n in range(4000, 4200))]:
        old = passages[number]
        passages[number] = Passage(old.id, old.title, f"{old.text} {word}")
    return passages


def random_query(rng: random.Random, words: Sequence[str]) -> Query:
    def term() -> str:
        return " ".join(rng.choice(words) for _ in range(rng.choice([1, 1, 1, 2])))

    refined = []
    for _ in range(rng.choice([0, 0, 1, 2, 3, 5])):
        op = rng.choice(["or", "+", "-", "^", "^"])
        field = "contents" if op == "or" else rng.choice(FIELDS)
        refined.append(Refinement(op, field, term(), rng.choice(WEIGHTS) if op == "^" else 1.0))
    return Query(" ".join(term() for _ in range(rng.randint(0, 6))), tuple(refined))


@pytest.mark.long
def test_search_gives_the_references_hits_in_a_large_collection(embedded, large) -> None:
    engine, slow = embedded(large), reference(large)
    rng = random.Random(8)
    words = [*(f"w{n}" for n in range(60)), "ends", "once", "stretch", "absent"]
    for _ in range(60):
        query = random_query(rng, words)
        wanted = slow.search(query, 20_000)
        for k in (1, 5, rng.randint(6, 300), 20_000):
            assert list(engine.search(query, k)) == wanted[:k], f"{query} k={k}"


@pytest.mark.long
def test_a_passage_far_longer_than_the_others_keeps_its_place(embedded) -> None:
    """Its terms weigh so little that rounding is the larger part of a bound."""
    rng = random.Random(4)
    passages = [Passage(f"s{n}", "", rng.choice(["red", "red sea", "sea", "blue"])) for n in range(300)]
    for number, size in enumerate([50, 500, 5_000, 50_000, 50_000, 49_000]):
        passages.insert(17 * number, Passage(f"long{number}", "", "sea " + "of ship blue " * size + " red"))
    engine, slow = embedded(passages), reference(passages)
    words = ["red", "sea", "ship", "blue"]
    for _ in range(200):
        query = random_query(rng, words)
        assert list(engine.search(query, 7)) == slow.search(query, 7), str(query)


PASSAGES = [
    Passage("a", "The Lord of the Rings", "a novel about a ring"),
    Passage("b", "Rings", "the rings of a tree tell its age, ring by ring"),
    Passage("c", "", "lord of rings"),
    Passage("d", "The", "lord and rings"),
    Passage("e", "Tree", "lord rings rings rings"),
]


@pytest.fixture(scope="module")
def engine(embedded: Open) -> EmbeddedEngine:
    return embedded(PASSAGES)


def found(engine: EmbeddedEngine, query: str) -> list[str]:
    return sorted(hit.id for hit in engine.search(parse(query), 10))


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("rings +(contents:absent)", ""),
        ("-(contents:lord)", ""),
        ("the of", ""),
        ("", ""),
        ("rings -(title:tree)", "abcd"),
        ('"lord of rings"', "cde"),
        ('"lord of the rings"', "ae"),
        ('"the lord rings of"', "e"),
        ('"rings rings"', "e"),
        ('"rings rings rings rings"', ""),
        ("+(title:the) ring", "ab"),
        ("+(contents:ring) +(contents:tree)", "b"),
        ("+(contents:ring) -(contents:ring)", ""),
        ("+(title:lord) +(title:tree)", ""),
        ("absent lord -(contents:absent)", "acde"),
        ('+(title:"lord of the rings")', "a"),
        ('-(contents:"lord rings") lord', "acd"),
    ],
)
def test_operators_find_what_they_mean(engine, query, ids) -> None:
    assert found(engine, query) == list(ids)


def test_no_hits_are_asked_for_and_none_come(engine) -> None:
    assert list(engine.search(parse("rings"), 0)) == []
    assert list(engine.search(parse("+(contents:rings)"), 0)) == []
    assert [list(hits) for hits in engine.search_many([parse("rings")] * 3, 0)] == [[], [], []]


def test_more_hits_than_passages_are_asked_for_and_all_that_match_come(engine) -> None:
    assert len(engine.search(parse("rings"), 10**9)) == 5
    assert len(engine.search(parse("+(contents:tree)"), 10**9)) == 2


def test_an_empty_collection_answers_nothing(embedded) -> None:
    engine = embedded([])
    assert list(engine.search(Query("anything"), 5)) == []
    assert list(engine.search(parse('+(title:"any thing")'), 5)) == []
    assert engine.idf("title", "anything") > 0


def test_a_phrase_more_frequent_than_any_single_word_is_scored(embedded) -> None:
    """Its frequency and length stand in no single word's postings."""
    passages = [Passage("a", "", "x y " * 7 + "z"), Passage("b", "", "x x y z"), Passage("c", "x y", "y x y x")]
    engine, slow = embedded(passages), ReferenceEngine(passages)
    for query in ['"x y"', '"y x"', '"x x"', '+(contents:"x y") z', '(title:"x y"^4) "y x"', '"x y x y"']:
        assert list(engine.search(parse(query), 5)) == slow.search(parse(query), 5), query


def test_hits_behave_as_a_list(engine) -> None:
    hits = engine.search(parse("rings lord"), 5)
    assert hits == list(hits)
    assert hits[0] == next(iter(hits))
    assert list(hits[1:3]) == list(hits)[1:3]
    assert hits[-1].id == list(hits)[-1].id
    assert repr(hits) == repr(list(hits))
    assert hits != list(hits)[1:]


def test_many_queries_over_threads_come_in_their_order(embedded, large, tmp_path) -> None:
    engine = embedded(large[:500])
    rng = random.Random(2)
    queries = [random_query(rng, [f"w{n}" for n in range(20)]) for _ in range(50)]
    one_by_one = [list(engine.search(query, 4)) for query in queries]
    engine.threads = 3
    assert [list(hits) for hits in engine.search_many(queries, 4)] == one_by_one


def test_an_explanation_names_each_clause_and_what_it_lacks(engine) -> None:
    explanation = engine.explain(parse('lord +(title:rings) -(contents:tree) (contents:"lord rings"^4) the'), "a")
    shares = {(share.occur, share.field, share.term): share for share in explanation.shares}
    assert set(shares) == {
        ("must", "title", "rings"), ("should", "contents", "lord"),
        ("should", "contents", "lord rings"), ("must_not", "contents", "tree"),
    }  # fmt: skip
    assert shares["should", "contents", "lord rings"].boost == 4.0
    assert shares["should", "contents", "lord rings"].frequency == 0
    assert shares["should", "contents", "lord rings"].score == 0.0
    assert shares["must", "title", "rings"].frequency == 1
    assert explanation.score == total(explanation) > 0


def test_an_excluded_passage_is_explained_as_no_match(engine) -> None:
    explanation = engine.explain(parse("rings -(contents:tree)"), "b")
    assert not explanation.matches
    assert explanation.score == 0.0
    [excluded] = [share for share in explanation.shares if share.occur == "must_not"]
    assert excluded.frequency == 1


def test_an_unknown_passage_or_field_is_named(engine) -> None:
    with pytest.raises(UnknownPassageError, match="'nobody'"):
        engine.explain(parse("rings"), "nobody")
    with pytest.raises(UnknownPassageError, match="'nobody'"):
        engine.passages(["a", "nobody"])
    with pytest.raises(UnknownFieldError, match="'body'"):
        engine.idf("body", "ring")


def test_more_clauses_than_lucene_allows_are_refused_once_analysed(engine) -> None:
    assert list(engine.search(Query(" ".join(f"w{n}" for n in range(1024))), 1)) == []
    with pytest.raises(TooManyClausesError, match="1026"):
        engine.search(Query(" ".join(f"w{n}-v{n}" for n in range(513))), 1)
