"""Every mistake in a query has its type, and the message points at its place."""

from __future__ import annotations

import contextlib
import time

import pytest

from orienteer.errors import (
    BoostError,
    QueryError,
    QuerySyntaxError,
    TermTooLongError,
    TooManyClausesError,
    UnknownFieldError,
)
from orienteer.query import parse

# The place is that of the mark ‹ in the text, which is taken out before the text is read.
MISTAKES = [
    # open or empty
    ('who is ‹"kermit', QuerySyntaxError, "open quote"),
    ('who is ‹"kermit\\"', QuerySyntaxError, "open quote"),
    ('who is ‹"kermit\\', QuerySyntaxError, "open quote"),
    ('a ‹""', QuerySyntaxError, "nothing between the quotes"),
    ('a +(title:‹"  ")', QuerySyntaxError, "nothing between the quotes"),
    ("a ‹(b", QuerySyntaxError, "open parenthesis"),
    ("a ‹(", QuerySyntaxError, "ends where a term after ( was expected"),
    ("a ‹title:", QuerySyntaxError, "ends where a term after title: was expected"),
    ("a ‹+", QuerySyntaxError, r"without a term; write +term or \+"),
    ("a ‹-", QuerySyntaxError, r"without a term; write -term or \-"),
    ("kermit‹\\", QuerySyntaxError, r"escape it as \\"),
    ("frog kermit‹\\u00e", QuerySyntaxError, "four hexadecimal digits"),
    ('frog "kermit‹\\u00g0"', QuerySyntaxError, "four hexadecimal digits"),
    # what Lucene reads and Orienteer does not offer
    ("a‹)", QuerySyntaxError, ") has a meaning"),
    ("a (‹)", QuerySyntaxError, ") has a meaning"),
    ("kerm‹*", QuerySyntaxError, "* has a meaning"),
    ("k‹?rmit", QuerySyntaxError, "? has a meaning"),
    ("kermit‹~2", QuerySyntaxError, "~ has a meaning"),
    ("a ‹[b TO c]", QuerySyntaxError, "[ has a meaning"),
    ("a ‹{b TO c}", QuerySyntaxError, "{ has a meaning"),
    ("a ‹/b/", QuerySyntaxError, "/ has a meaning"),
    ("a ‹!b", QuerySyntaxError, "! has a meaning"),
    ("a ‹&& b", QuerySyntaxError, "& has a meaning"),
    ("a‹||b", QuerySyntaxError, "| has a meaning"),
    ('a‹"b"', QuerySyntaxError, '" has a meaning'),
    ("a ‹: b", QuerySyntaxError, ": has a meaning"),
    ("a ‹^2", QuerySyntaxError, "^ has a meaning"),
    ("a ‹AND b", QuerySyntaxError, r"escape it as \AND"),
    ("a (‹OR)", QuerySyntaxError, r"escape it as \OR"),
    ("‹NOT b", QuerySyntaxError, r"escape it as \NOT"),
    ("a +(b ‹c)", QuerySyntaxError, "group of several clauses"),
    ("a (‹-b)", QuerySyntaxError, "operator inside a clause"),
    ("a +‹-b", QuerySyntaxError, "operator inside a clause"),
    ("a title:‹+b", QuerySyntaxError, "operator inside a clause"),
    ("((((((((‹(a", QuerySyntaxError, "more than 8 deep"),
    ("a title:(‹title:b)", QuerySyntaxError, "field inside a field"),
    # an unquoted word of which the analyser may make several terms
    ("a ‹+wi-fi", QuerySyntaxError, "may be several terms"),
    ("a ‹title:日本", QuerySyntaxError, "may be several terms"),
    ("a ‹x²y^2", QuerySyntaxError, "may be several terms"),
    ("a ‹-rock'90", QuerySyntaxError, "may be several terms"),
    ("a ‹+90's", QuerySyntaxError, "may be several terms"),
    ("a ‹+" + "b" * 256, QuerySyntaxError, "may be several terms"),
    # fields
    ("a ‹author:b", UnknownFieldError, "unknown field 'author'"),
    ("a +(‹Title:b)", UnknownFieldError, "unknown field 'Title'"),
    # boosts
    ("a b‹^", BoostError, "without a number"),
    ("a b‹^x", BoostError, "without a number"),
    ("a b‹^.5", BoostError, "without a number"),
    ("a b‹^-1", BoostError, "without a number"),
    ("a b‹^0", BoostError, "a boost of 0;"),
    ("a b‹^0.0", BoostError, "a boost of 0.0;"),
    ("a b‹^1000.1", BoostError, "a boost of 1000.1;"),
    ("a b‹^" + "9" * 400, BoostError, "a boost of 99999999999999999999;"),
    ("a b^2‹c", QuerySyntaxError, "followed by a space"),
    ("a b^1‹e9", QuerySyntaxError, "followed by a space"),
    ("a ‹(b^2)^3", QuerySyntaxError, "two boosts"),
    ("a ‹+b^2", QuerySyntaxError, "take no boost"),
    ("a ‹-(title:b^2)", QuerySyntaxError, "take no boost"),
    # limits
    ("a ‹" + "b" * 257, TermTooLongError, "257 characters"),
    ("a ‹" + "\\-" * 257 + " c", TermTooLongError, "257 characters"),
    ('a ‹"' + "b" * 257 + '"', TermTooLongError, "257 characters"),
    ('a ‹-(title:"' + "b" * 257 + '")', TermTooLongError, "257 characters"),
    ("a " * 1024 + "‹a", TooManyClausesError, "more than 1024 clauses"),
    ("a " * 1000 + '+(title:"b") ' * 24 + "‹a b c", TooManyClausesError, "more than 1024 clauses"),
    ("a " * 1024 + '‹(title:"b"^2)', TooManyClausesError, "more than 1024 clauses"),
    ("a " * 1023 + "‹b\\ b c", TooManyClausesError, "more than 1024 clauses"),
]


@pytest.mark.parametrize(("marked", "kind", "words"), MISTAKES, ids=[text[-30:] for text, _, _ in MISTAKES])
def test_a_mistake_has_its_type_and_the_caret_stands_under_its_place(
    marked: str, kind: type[QueryError], words: str
) -> None:
    text, place = marked.replace("‹", ""), marked.index("‹")
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert type(error) is kind
    assert words in error.message
    assert (error.text, error.place) == (text, place)
    message, window, pointer = str(error).split("\n")
    assert message == error.message
    column = pointer.index("^")
    assert window[column : column + 20] == text[place : place + 20]
    assert window[2:column] == text[:place][2 - column :]
    assert len(window) <= 2 + 60


@pytest.mark.parametrize(
    "text",
    [
        "a " + "b" * 256,
        "a " + "\\-" * 256,
        '"' + "b" * 256 + '"',
        "a " * 1024,
        "a " * 1000 + '+(title:"b") ' * 24,
        "a^1000",
        "a^0.0000001",
        "((((((((a))))))))",
    ],
    ids=lambda text: text[:12],
)
def test_what_stands_at_a_limit_is_read(text: str) -> None:
    query = parse(text)
    assert parse(str(query)) == query


LONG = 100_000
RUNS = [
    "a", "a ", "(", ")", "( ", "(a ", "(title:a)", '(title:"a"^2) ', "\\", "\\\\", "\\ ", "a\\ ", "\\u0041",
    '"', '\\"', '"a', '"a"', "+", "+ ", "+a", "-", "a-", "^", "^2", "a:", "title:", " ", "\u3000", "\x0b",
    "&", "&a", "AND ", "\\AND ", "\ud83d", "é ", "😀", "'a", "9", "\x00",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("before", ["", '"', "+", "a^", "title:", "(", "\\"])
def test_a_hundred_thousand_characters_are_read_or_refused_at_once(before: str) -> None:
    for run in RUNS:
        text = before + run * (LONG // len(run))
        start = time.process_time()
        with contextlib.suppress(QueryError):
            parse(text)
        seconds = time.process_time() - start
        assert seconds < 1.0, f"{seconds:.2f} s for {before!r} and a run of {run!r}"
