"""`find_query` against every query of a few clauses, each judged by a search of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb, log2
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_corpora import WORDS, corpora, opened

from orienteer.bundled import bundled_engine
from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.errors import UnknownPassageError
from orienteer.query import FIELDS, Query, parse
from orienteer.workshop.find_query import Clause, FindQueryError, FoundQuery, Quality, as_dict, find_query
from orienteer.workshop.set_search import SetSearch

SOME = settings(max_examples=settings().max_examples // 5)  # tries every query of two clauses
EVERYTHING = 100_000  # a beam that keeps all


def every_query(clauses: int) -> Iterator[tuple[Clause, ...]]:
    """All queries of so many clauses over the vocabulary: single words in both fields, with every operator."""
    words = [Clause(occur, f, w) for w in WORDS for f in FIELDS for occur in ("should", "must", "must_not")]
    yield from combinations(words, clauses)


def f_of(slow: ReferenceEngine, clauses: tuple[Clause, ...], wanted: set[str], size: int) -> float:
    """F1 of all that a search returns."""
    query = Query("", tuple(clause.refinement for clause in clauses))
    ids = {hit.id for hit in slow.search(query, size)}
    return 2 * len(ids & wanted) / (len(ids) + len(wanted))


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4), st.integers(1, 2))
def test_a_wide_beam_finds_the_best_of_all_queries(passages: list[Passage], which: set[int], clauses: int) -> None:
    wanted = {passages[number % len(passages)].id for number in which}
    slow = ReferenceEngine(passages)
    expected = max(f_of(slow, q, wanted, len(passages)) for n in range(1, clauses + 1) for q in every_query(n))
    result = find_query(opened(passages), wanted, clauses=clauses, beam=EVERYTHING)
    assert result.complete
    # Phrases may do better than single words, never worse.
    assert result.best.quality.f >= expected - 1e-12
    if all(" " not in clause.term for clause in result.best.clauses):
        assert result.best.quality.f == pytest.approx(expected)


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4), st.integers(0, 8), st.floats(0.3, 3))
def test_counts_are_those_of_a_search_for_everything(
    passages: list[Passage], which: set[int], bad: int, beta: float
) -> None:
    wanted = {passages[number % len(passages)].id for number in which}
    rejected = passages[bad % len(passages)].id
    assume(rejected not in wanted)
    result = find_query(opened(passages), wanted, not_relevant=[rejected], clauses=3, beam=2, beta=beta)
    slow = ReferenceEngine(passages)
    for found in result.front:
        ids = {hit.id for hit in slow.search(found.query, len(passages))}
        relevant = len(ids & wanted)
        assert (found.quality.matches, found.quality.relevant) == (len(ids), relevant)
        assert found.quality.rejected == (rejected in ids)
        assert found.quality.recall == relevant / len(wanted)
        expected = (1 + beta**2) * relevant / (beta**2 * len(wanted) + len(ids))
        assert found.quality.f == pytest.approx(expected)


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4))
def test_a_narrow_beam_values_its_candidates_as_their_states_do(passages: list[Passage], which: set[int]) -> None:
    wanted = [passages[number % len(passages)].id for number in which]
    engine = opened(passages)
    narrow = find_query(engine, wanted, clauses=3, beam=1)
    wide = find_query(engine, wanted, clauses=3, beam=EVERYTHING)
    assert narrow.front[0].quality.f == wide.front[0].quality.f  # the first clause is exact whatever the beam
    assert narrow.best.quality.f <= wide.best.quality.f + 1e-12


def test_two_required_words_are_found_though_each_alone_is_a_bad_query() -> None:
    # 18 of 318 passages hold both words, 168 each of them alone; each of the 18 has a word of its own.
    texts = [f"ant own{number} bee" for number in range(18)] + [
        f"{word} other{number}" for number, word in enumerate(("ant", "bee") * 150)
    ]
    passages = [Passage(f"p{number}", "", text) for number, text in enumerate(texts)]
    found = find_query(opened(passages), [f"p{number}" for number in range(18)], beam=1, clauses=12).best
    assert found.quality.f == 1.0
    assert {(each.occur, each.term) for each in found.clauses} == {("must", "ant"), ("must", "bee")}


def test_a_beam_of_pairs_takes_no_place_from_the_other(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("river", "king", "metal", "war", "city", "music"):
        wanted = [hit.id for hit in engine.search(Query(word), 14)]
        with_pairs = find_query(engine, wanted, beam=2)
        with monkeypatch.context() as patch:
            patch.setattr(SetSearch, "required_pairs", lambda self: [])
            alone = find_query(engine, wanted, beam=2)
        assert with_pairs.complete
        assert with_pairs.best.quality.f >= alone.best.quality.f
        by_length = {len(each.clauses): each.quality.f for each in with_pairs.front}
        for each in alone.front:
            assert max(f for length, f in by_length.items() if length <= len(each.clauses)) >= each.quality.f


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4), st.integers(0, 8), st.integers(0, 8))
def test_a_pair_has_the_value_of_its_query(passages: list[Passage], which: set[int], bad: int, out: int) -> None:
    ids = [passage.id for passage in passages]
    wanted = sorted({ids[number % len(ids)] for number in which})
    rejected, held = ([ids[number % len(ids)]] for number in (bad, out))
    assume(not {*rejected, *held} & set(wanted) and rejected != held)
    objectives: tuple[Literal["f", "description"], ...] = ("f", "description")
    for objective in objectives:
        search = SetSearch(opened(passages), wanted, held, rejected, 1.0, objective)
        for value, clauses in search.required_pairs():
            assert value == pytest.approx(search.value(search.evaluate(clauses)))


@pytest.fixture(scope="module")
def engine() -> EmbeddedEngine:
    return bundled_engine()


@pytest.fixture(scope="module")
def family(engine: EmbeddedEngine) -> list[str]:
    """All passages of one title."""
    titles: dict[str, list[str]] = {}
    for number in range(len(engine)):
        passage = engine.passage_at(number)
        titles.setdefault(passage.title, []).append(passage.id)
    return max(titles.values(), key=len)


def test_all_passages_of_a_title_are_found_by_one_clause(engine: EmbeddedEngine, family: list[str]) -> None:
    result = find_query(engine, family)
    assert result.best.quality.f == 1.0
    assert len(result.best.clauses) == 1
    assert {hit.id for hit in engine.search(result.best.query, len(engine))} == set(family)


def test_the_front_rises_with_its_length_and_says_what_each_clause_gives(engine: EmbeddedEngine) -> None:
    wanted = [hit.id for hit in engine.search(Query("river war metal king"), 12)]
    result = find_query(engine, wanted, clauses=6)
    lengths, values = [len(each.clauses) for each in result.front], [each.quality.f for each in result.front]
    assert lengths == sorted(set(lengths))
    assert values == sorted(set(values))
    assert result.best == result.front[-1]
    assert len(result.contributions) == len(result.best.clauses)
    for clause, told in zip(result.best.clauses, result.contributions, strict=True):
        left = tuple(each.refinement for each in result.best.clauses if each != clause)
        ids = {hit.id for hit in engine.search(Query("", left), len(engine))}
        assert told.matches_without == len(ids)
        assert told.relevant_lost == result.best.quality.relevant - len(ids & set(wanted))


def test_held_out_passages_are_not_searched_with_and_judge_the_length(engine: EmbeddedEngine) -> None:
    wanted = [hit.id for hit in engine.search(Query("river"), 20)]
    result = find_query(engine, wanted, holdout=0.5, clauses=8)
    assert (result.wanted, result.held_out) == (10, 10)
    assert result.best in result.front
    for found in result.front:
        ids = {hit.id for hit in engine.search(found.query, len(engine))}
        among = len(ids & set(wanted)) - found.quality.relevant
        assert found.held_out == pytest.approx(among / 10)
        assert found.quality.matches == len(ids) - among


def test_a_seed_stays_and_what_is_rejected_is_kept_out(engine: EmbeddedEngine) -> None:
    hits = [hit.id for hit in engine.search(Query("river"), 8)]
    result = find_query(engine, hits[:6], not_relevant=hits[6:], seed=parse('"river"'), clauses=8)
    assert all(found.clauses[0] == Clause("should", "contents", "river") for found in result.front)
    ids = {hit.id for hit in engine.search(result.best.query, len(engine))}
    assert not ids & set(hits[6:])


def test_the_query_is_written_for_lucene_opensearch_and_reviewers() -> None:
    clauses = (
        Clause("should", "contents", "x ray"), Clause("should", "title", "radiation"),
        Clause("must_not", "contents", "film"),
    )  # fmt: skip
    found = FoundQuery(clauses, Quality(1.0, 1.0, 1.0, 1, 1))
    assert parse(found.lucene) == found.query
    assert found.boolean == '("x ray" OR title:radiation) NOT (film)'
    assert found.opensearch(contents="body") == {
        "query": {
            "bool": {
                "should": [{"match_phrase": {"body": "x ray"}}, {"match": {"title": "radiation"}}],
                "must_not": [{"match": {"body": "film"}}], "minimum_should_match": 1,
            }
        }
    }  # fmt: skip
    both = FoundQuery((Clause("must", "contents", "a1"), Clause("must", "title", "b2")), Quality(1.0, 1.0, 1.0, 1, 1))
    assert both.boolean == "a1 AND title:b2"


CLAUSES = st.lists(
    st.one_of(
        st.builds(
            Clause, st.just("should"), st.sampled_from(FIELDS), st.sampled_from([*WORDS, "ant bee", "dog elk"]),
            st.sampled_from([1.0, 0.5, 4.0]),
        ),
        st.builds(
            Clause, st.sampled_from(["must", "must_not"]), st.sampled_from(FIELDS), st.sampled_from([*WORDS, "cow dog"])
        ),
    ),
    min_size=1, max_size=5, unique_by=lambda clause: clause[1:3],
).map(tuple)  # fmt: skip


@SOME
@given(corpora, CLAUSES)
def test_every_export_read_again_returns_what_the_query_returns(
    passages: list[Passage], clauses: tuple[Clause, ...]
) -> None:
    assume(any(clause.occur != "must_not" for clause in clauses))
    found = FoundQuery(clauses, Quality(1.0, 1.0, 1.0, 1, 1))
    engine = opened(passages)
    expected = engine.search(found.query, len(passages))
    assert list(engine.search(parse(found.lucene), len(passages))) == list(expected)
    again = from_opensearch(found.opensearch())
    hits = engine.search(again, len(passages))
    assert [hit.id for hit in hits] == [hit.id for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=1e-5)
    # Reviewers' text has no scores, and no optional clauses beside required ones: they do not change what matches.
    ids = {hit.id for hit in engine.search(from_boolean(found.boolean), len(passages))}
    assert ids == {hit.id for hit in expected}


def from_opensearch(body: dict[str, Any]) -> Query:
    """Reads the body as OpenSearch does."""
    clauses = []
    for occur in ("should", "must", "must_not"):
        for each in body["query"]["bool"].get(occur, []):
            [(kind, row)] = each.items()
            [(field, value)] = row.items()
            value = value if isinstance(value, dict) else {"query": value}
            assert (kind == "match_phrase") == (" " in value["query"])
            clauses.append(Clause(occur, field, value["query"], value.get("boost", 1.0)))
    has_must = any(clause.occur == "must" for clause in clauses)
    assert has_must or body["query"]["bool"]["minimum_should_match"] == 1
    return Query("", tuple(clause.refinement for clause in clauses))


def from_boolean(text: str) -> Query:
    """Reads `(A OR B) NOT (C OR D)` and `A AND B`, the forms of reviewers that are written."""
    wanted, _, unwanted = text.partition(" NOT ")
    wanted = wanted.removeprefix("(").removesuffix(")") if unwanted else wanted
    occur = "must" if " AND " in wanted else "should"
    parts = [(occur, each) for each in wanted.split(" AND " if occur == "must" else " OR ")]
    parts += [("must_not", each) for each in unwanted.strip("()").split(" OR ") if each]
    clauses = []
    for kind, part in parts:
        field = "title" if part.startswith("title:") else "contents"
        clauses.append(Clause(kind, field, part.removeprefix("title:").strip('"')))  # type: ignore[arg-type]
    return Query("", tuple(clause.refinement for clause in clauses))


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4), st.sampled_from(["ap", "recall@2"]))
def test_a_rankings_value_is_that_of_a_search_for_everything(
    passages: list[Passage], which: set[int], objective: str
) -> None:
    wanted = {passages[number % len(passages)].id for number in which}
    slow = ReferenceEngine(passages)
    result = find_query(opened(passages), wanted, objective=objective, clauses=3, beam=2)
    for found in result.front:
        ids = [hit.id for hit in slow.search(found.query, len(passages))]
        ranks = [rank for rank, id in enumerate(ids, 1) if id in wanted]
        precision = sum(place / rank for place, rank in enumerate(ranks, 1)) / len(wanted)
        recall = sum(rank <= 2 for rank in ranks) / len(wanted)
        assert found.quality.value == pytest.approx(precision if objective == "ap" else recall)


@SOME
@given(corpora, st.sets(st.integers(0, 8), min_size=1, max_size=4))
def test_a_wide_beam_finds_the_shortest_description_of_all_queries(passages: list[Passage], which: set[int]) -> None:
    wanted = {passages[number % len(passages)].id for number in which}
    slow = ReferenceEngine(passages)
    result = find_query(opened(passages), wanted, objective="description", clauses=1, beam=EVERYTHING)
    [front] = result.front

    def exceptions(clauses: tuple[Clause, ...]) -> float:
        query = Query("", tuple(clause.refinement for clause in clauses))
        ids = {hit.id for hit in slow.search(query, len(passages))}
        relevant = len(ids & wanted)
        # Of a query no better than chance the bits stay as they are at chance.
        matches = max(relevant, min(len(ids), max(1, relevant * len(passages) // len(wanted))))
        missed = min(len(wanted) - relevant, len(passages) - matches)
        return log2(comb(matches, relevant)) + log2(comb(len(passages) - matches, missed))

    singles = [q for q in every_query(1) if any(w & wanted for w in [{h.id for h in slow.search(
        Query("", (q[0].refinement,)), len(passages))}])]  # fmt: skip
    assume(singles)
    assert exceptions(front.clauses) <= min(map(exceptions, singles)) + 1e-9


def test_half_of_a_title_is_described_by_the_title(engine: EmbeddedEngine, family: list[str]) -> None:
    half = find_query(engine, family[::2], objective="description").best
    ids = {hit.id for hit in engine.search(half.query, len(engine))}
    assert set(family) <= ids
    # F1 takes the other half as unwanted, and has a price for it.
    by_f = find_query(engine, family[::2]).best
    others = set(family) - set(family[::2])
    assert len(others & {hit.id for hit in engine.search(by_f.query, len(engine))}) < len(others)


def test_boosts_are_searched_where_the_ranking_counts(engine: EmbeddedEngine) -> None:
    wanted = [hit.id for hit in engine.search(parse('"river"^4 "king"'), 12)]
    result = find_query(engine, wanted, objective="ap", clauses=3)
    assert result.best.quality.value is not None
    assert result.best.quality.value >= 0.9
    assert "value" in as_dict(result)["best"]
    with pytest.raises(FindQueryError, match="expected f, description, ap"):
        find_query(engine, wanted, objective="luck")


def test_the_same_search_gives_the_same_query(engine: EmbeddedEngine, family: list[str]) -> None:
    first, second = (as_dict(find_query(engine, family[:3], clauses=4)) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_what_cannot_be_searched_is_one_clear_error(engine: EmbeddedEngine, family: list[str]) -> None:
    with pytest.raises(UnknownPassageError, match="nowhere"):
        find_query(engine, ["nowhere"])
    with pytest.raises(FindQueryError, match="no passages"):
        find_query(engine, [])
    with pytest.raises(FindQueryError, match="relevant and as not relevant"):
        find_query(engine, family[:1], not_relevant=family[:1])
    with pytest.raises(FindQueryError, match="clauses = 0"):
        find_query(engine, family, clauses=0)
    with pytest.raises(FindQueryError, match="does not list"):
        find_query(ReferenceEngine([Passage("a", "", "b")]), ["a"])
