"""Filters over metadata: what they mean, and what is refused."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.errors import FilterError
from orienteer.query.where import MAX_DEPTH, MAX_LENGTH, fields_of, matches, parse_where

REPORT = {
    "year": 2021, "folder": "reports/2021", "author": "Ottoline Bragg", "date": "2021-03-14", "tags": ["ice", "Wind"],
    "draft": False, "price": "12.50", "origin": {"city": "Oslo"}, "page": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "year=2021", "year==2021", "year>=2020", "year>2020", "year<=2021", "year<2021.5", "year!=2020", "year:2021",
        "folder:reports", "folder:Reports", "folder:2021", "folder=reports/2021", "folder:reports/2021",
        'author:"ottoline bragg"', "author:bragg", 'author="Ottoline Bragg"', "tags:ice", "tags:wind", "tags=ice",
        "draft=false", "draft:FALSE", "price>12", "price=12.5", "origin.city=Oslo", "absent!=1", "not absent:*",
        "year:*", "date>=2021", "date<=2021", "date=2021-03", "date<2021-04", "date>2020-12-31", "author>A",
        "year=2021 and page=3", "year=1 or page=3", "not year=1", "not (year=1 or page=1)", "NOT year=1 AND page=3",
        "year=1 and page=1 or page=3", "(((page=3)))", ' page = "3" ', '"page"=3',
    ],
)  # fmt: skip
def test_a_report_passes(text: str) -> None:
    assert matches(parse_where(text), REPORT)


@pytest.mark.parametrize(
    "text",
    [
        "year=2020", "year<2021", "year>2021", "year!=2021", "folder:report", "folder:port", "folder=reports",
        "author=bragg", "author:bra", "tags:win", "tags=wind", "draft=true", "price<12", "absent=1", "absent:*",
        "absent>0", "absent<0", "date<2021", "date>2021", "date=2020", "year=2021 and page=4", "not year=2021",
        "page=3 and (year=1 or year=2)", "origin=Oslo", "origin.city.street=1", 'year:"*"', 'author:""',
    ],
)  # fmt: skip
def test_a_report_does_not_pass(text: str) -> None:
    assert not matches(parse_where(text), REPORT)


def test_a_year_is_that_of_the_date_where_a_passage_has_none_of_its_own() -> None:
    assert matches(parse_where("year>=2020 and year<=2020"), {"date": "2020-06-01"})
    assert not matches(parse_where("year>=2021"), {"date": "2020-06-01"})
    assert matches(parse_where("year=1903"), {"year": "1903", "date": "2020-06-01"})


def test_a_value_with_colons_needs_no_quotes() -> None:
    assert matches(parse_where("time=10:30 and link=http://x/y"), {"time": "10:30", "link": "http://x/y"})


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "where a field is expected", 0),
        ("year", "after the field 'year'", 4),
        ("year>=", "needs a value", 6),
        ("year>=2020 and", "where a field is expected", 14),
        ("year>=2020 folder:x", "'folder' is not expected here", 11),
        ("(year=1", "not closed", 0),
        ("year=1)", "is not expected here", 6),
        ('name="open', "a quote that is not closed", 5),
        ("a ! b", "no meaning", 2),
        ("year>*", "goes with a colon", 5),
        ("=3", "'=' stands where a field is expected", 0),
        ("a=(b)", "needs a value", 2),
    ],
)
def test_a_filter_that_cannot_be_read_is_an_error_at_its_place(text: str, message: str, place: int) -> None:
    with pytest.raises(FilterError, match=re.escape(message)) as caught:
        parse_where(text)
    assert caught.value.place == place


def test_a_filter_has_bounds_of_length_and_depth() -> None:
    with pytest.raises(FilterError, match="characters"):
        parse_where("a=1 or " * MAX_LENGTH)
    with pytest.raises(FilterError, match="levels"):
        parse_where("(" * (MAX_DEPTH + 2) + "a=1")
    with pytest.raises(FilterError, match="levels"):
        parse_where("not " * (MAX_DEPTH + 2) + "a=1")


@pytest.mark.parametrize("part", ["a=1 or ", '"\\', "((", "a:b:", "not ", '"', "\\\\", " \t", "=<"])
def test_the_longest_filter_is_read_or_refused_at_once(part: str) -> None:
    started = time.process_time()
    with suppress(FilterError):
        parse_where((part * MAX_LENGTH)[:MAX_LENGTH])
    assert time.process_time() - started < 0.5


@given(st.text(st.sampled_from('ab1 .:=<>!()"\\*andor not'), max_size=40))
def test_any_text_is_a_filter_or_one_clear_error(text: str) -> None:
    try:
        where = parse_where(text)
    except FilterError:
        return
    matches(where, REPORT)
    assert fields_of(where)


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.one_of(st.integers(0, 3), st.text(max_size=3), st.lists(st.integers())), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip


@given(
    VALUES, st.sampled_from(["=", "<", ">", "<=", ">=", "!=", ":"]), st.sampled_from(["1", "true", "a", "2020", '""'])
)
def test_every_comparison_of_every_value_has_an_outcome(value: Any, operator: str, wanted: str) -> None:
    one = matches(parse_where(f"field{operator}{wanted}"), {"field": value})
    assert matches(parse_where(f"not field{operator}{wanted}"), {"field": value}) is not one
