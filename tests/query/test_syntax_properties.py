"""What holds for every query and every text: nothing is lost, nothing crashes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orienteer.errors import QueryError
from orienteer.query import FIELDS, Query, Refinement, escape, parse

CHARACTERS = st.characters(exclude_categories=())  # lone surrogates too
PIECES = st.sampled_from([
    *'\\+-!():^[]"{}~*?|&/', " ", "  ", "\t", "\n", "\r", "\u3000", "\xa0", "\x0b", "\x1c", "\x85", "\u2028",
    "AND", "OR", "NOT", "TO", "&&", "||", "title:", "contents:", "author:", "^2", "^0.5", "\\u0041", "u0041",
    "\x00", "\ud83d", "\ude00", "\ufeff", "kermit", "C++", "9", "-9", "it's", "日本", "é", "e\u0301",
])  # fmt: skip
TEXTS = st.lists(CHARACTERS | PIECES, max_size=40).map("".join)
TERMS = TEXTS.filter(str.strip)
BOOSTS = st.floats(min_value=1e-30, max_value=1000) | st.integers(1, 1000)
REFINEMENTS = st.one_of(
    st.builds(Refinement, st.just("or"), st.just("contents"), TERMS),
    st.builds(Refinement, st.sampled_from(["+", "-"]), st.sampled_from(FIELDS), TERMS),
    st.builds(Refinement, st.just("^"), st.sampled_from(FIELDS), TERMS, BOOSTS),
)
QUERIES = st.builds(Query, TEXTS, st.lists(REFINEMENTS, max_size=6).map(tuple))


def read(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as error:
        return error


@given(QUERIES)
def test_a_query_that_is_written_and_read_is_the_same_query(query: Query) -> None:
    assert parse(str(query)) == query


@pytest.mark.long
@given(QUERIES)
def test_what_is_written_can_be_stored_in_a_file(query: Query) -> None:
    assert "\n" not in str(query)
    assert str(query).encode().decode() == str(query)


@given(TEXTS)
def test_an_escaped_text_is_only_words(text: str) -> None:
    assert parse(str(Query(text))) == Query(text)
    assert not parse(str(Query(text))).refinements


@given(TEXTS)
def test_an_escape_is_undone_by_dropping_each_backslash_that_escapes(text: str) -> None:
    escaped, plain = iter(escape(text)), ""
    for character in escaped:
        plain += next(escaped) if character == "\\" else character
    assert plain == text


@given(QUERIES, REFINEMENTS)
def test_a_refined_query_is_written_as_the_query_and_then_the_refinement(query: Query, refinement: Refinement) -> None:
    assert str(query.refine(refinement)) == f"{query} {refinement}".lstrip(" ")


@given(TEXTS)
@example("(-a)")
@example("\\u00")
@example("+\ud83d")
def test_any_text_is_read_or_refused_with_an_error_that_points_into_it(text: str) -> None:
    result = read(text)
    if isinstance(result, Query):
        assert parse(str(result)) == result
    else:
        assert result.text == text
        assert 0 <= result.place < len(text)
        assert str(result).startswith(result.message)
