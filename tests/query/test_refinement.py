"""`Refinement` and `Query` as data: what they hold, and what they refuse."""

from __future__ import annotations

import pytest

from orienteer.errors import (
    BoostError,
    QuerySyntaxError,
    TermTooLongError,
    TooManyClausesError,
    UnknownFieldError,
)
from orienteer.query import Query, Refinement


def test_a_query_grows_by_its_refinements_in_order() -> None:
    required = Refinement("+", "title", "muppet")
    boosted = Refinement("^", "contents", "frog", 4)
    query = Query("who is kermit")
    assert query.refine(required).refine(boosted) == Query("who is kermit", (required, boosted))
    assert query.refinements == ()


def test_equal_queries_have_equal_hashes() -> None:
    one = Query("a  b", (Refinement("^", "title", "c", 2),))
    other = Query(" a b ", (Refinement("^", "title", "c", 2.0),))
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\r\n", "\u3000", "\xa0", "\u2028", "\x1f", "  "])
def test_white_space_of_any_kind_is_one_blank(blank: str) -> None:
    assert Query(f"{blank}a{blank}b{blank}").question == "a b"
    assert Refinement("+", "title", f"{blank}a{blank}b{blank}").term == "a b"


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert Query("a\ud800b").question == "a\ufffdb"


def test_two_surrogates_that_belong_together_become_their_character() -> None:
    assert Query("\ud83d\ude00").question == "😀"


def test_an_operator_outside_the_four_is_refused() -> None:
    with pytest.raises(QuerySyntaxError, match="unknown operator '!'"):
        Refinement("!", "contents", "a")  # type: ignore[arg-type]


def test_a_field_outside_the_two_is_refused() -> None:
    with pytest.raises(UnknownFieldError, match="unknown field 'body'"):
        Refinement("+", "body", "a")  # type: ignore[arg-type]


def test_a_plain_term_in_the_title_is_refused() -> None:
    with pytest.raises(UnknownFieldError, match="searches contents"):
        Refinement("or", "title", "a")


@pytest.mark.parametrize("term", ["", " ", "\u3000\n"])
def test_an_empty_term_is_refused(term: str) -> None:
    with pytest.raises(QuerySyntaxError, match="empty term"):
        Refinement("+", "contents", term)


def test_a_term_may_have_256_characters_and_no_more() -> None:
    assert len(Refinement("-", "title", "é" * 256).term) == 256
    with pytest.raises(TermTooLongError, match="257 characters"):
        Refinement("-", "title", "é" * 257)


def test_a_word_of_the_question_may_have_256_characters_and_no_more() -> None:
    assert Query("a " + "b" * 256)
    with pytest.raises(TermTooLongError, match="257 characters"):
        Query("a " + "b" * 257)


@pytest.mark.parametrize("weight", [1e-30, 0.1, 1, 1000, 1000.0])
def test_a_boost_within_its_limits_is_kept(weight: float) -> None:
    assert Refinement("^", "contents", "a", weight).weight == weight


@pytest.mark.parametrize("weight", [0.0, -0.0, -1.0, 5e-324, 1e-31, 1000.0000000000001, float("inf"), float("nan")])
def test_a_boost_beyond_its_limits_is_refused(weight: float) -> None:
    with pytest.raises(BoostError, match="more than 0 and at most 1000"):
        Refinement("^", "contents", "a", weight)


@pytest.mark.parametrize("op", ["or", "+", "-"])
def test_only_a_boost_takes_a_weight(op: str) -> None:
    with pytest.raises(BoostError, match=r"only \^ takes a weight"):
        Refinement(op, "contents", "a", 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [0, 1, 1000, 1024])
def test_a_query_may_have_1024_clauses_and_no_more(words: int) -> None:
    refinements = (Refinement("-", "title", "b"),) * (1024 - words)
    assert Query("a " * words, refinements)
    with pytest.raises(TooManyClausesError, match="more than 1024 clauses"):
        Query("a " * words, (*refinements, Refinement("-", "title", "b")))
