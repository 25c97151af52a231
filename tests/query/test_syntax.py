"""Lucene's syntax by example: what is written, what is read."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from orienteer.query import Query, Refinement, escape, parse

SPECIAL = r'\+-!():^[]"{}~*?|&/'


def boosted(term: str, weight: float, field: str = "contents") -> Refinement:
    return Refinement("^", field, term, weight)  # type: ignore[arg-type]


def test_the_characters_that_lucene_escapes_are_escaped_and_no_others() -> None:
    for code in range(0x3100):
        character = chr(code)
        assert escape(character) == ("\\" + character if character in SPECIAL else character)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Query(""), ""),
        (Query("who is kermit"), "who is kermit"),
        (Query("9 -9"), r"9 \-9"),
        (Query("C++"), r"C\+\+"),
        (Query("a:(^"), r"a\:\(\^"),
        (Query("AND ANDES or OR NOT"), r"\AND ANDES or \OR \NOT"),
        (Query("(AND)"), r"\(AND\)"),
        (Query("AT&T a && b"), r"AT\&T a \&\& b"),
        (Query("q", (Refinement("or", "contents", "muppet"),)), 'q "muppet"'),
        (Query("", (Refinement("or", "contents", "the muppet show"),)), '"the muppet show"'),
        (Query("q", (Refinement("+", "title", "muppet"),)), 'q +(title:"muppet")'),
        (Query("q", (Refinement("-", "contents", "muppet"),)), 'q -(contents:"muppet")'),
        (Query("q", (boosted("muppet", 8),)), 'q (contents:"muppet"^8)'),
        (Query("q", (boosted("muppet", 0.1, "title"),)), 'q (title:"muppet"^0.1)'),
        (Query("q", (boosted("muppet", 1),)), 'q (contents:"muppet"^1)'),
        (Query("q", (boosted("muppet", 1000),)), 'q (contents:"muppet"^1000)'),
        (Query("q", (boosted("muppet", 1e-7),)), 'q (contents:"muppet"^0.0000001)'),
        (Query("q", (Refinement("+", "title", 'say "AND" \\'),)), r'q +(title:"say \"AND\" \\")'),
    ],
)
def test_a_query_is_written_as_lucene_reads_it_and_read_back(query: Query, text: str) -> None:
    assert str(query) == text
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("  a \t\n\r\u3000 b  ", Query("a b")),
        ("a\\ b", Query("a b")),
        ("a\xa0b", Query("a b")),
        (r"\a\b\\", Query("ab\\")),
        (r"\u0041\u00e9", Query("Aé")),
        (r"\\u0041", Query("\\u0041")),
        (r"\ud83d\ude00", Query("😀")),
        ("C++ wi-fi AT&T a|b it's a.b", Query("C++ wi-fi AT&T a|b it's a.b")),
        ("a - b + c", Query("a - b + c")),
        ("(a)", Query("a")),
        ("((a)) b", Query("a b")),
        ("a(b)c", Query("a b c")),
        ("+muppet", Query("", (Refinement("+", "contents", "muppet"),))),
        ("-muppet's", Query("", (Refinement("-", "contents", "muppet's"),))),
        ('+"muppet show"', Query("", (Refinement("+", "contents", "muppet show"),))),
        ("+title:muppet", Query("", (Refinement("+", "title", "muppet"),))),
        ("-( title:( muppet ) )", Query("", (Refinement("-", "title", "muppet"),))),
        ("title:muppet", Query("", (boosted("muppet", 1, "title"),))),
        ('contents:"muppet"', Query("", (boosted("muppet", 1),))),
        ("muppet^2.50", Query("", (boosted("muppet", 2.5),))),
        ('"muppet"^2', Query("", (boosted("muppet", 2),))),
        ("(title:muppet)^2", Query("", (boosted("muppet", 2, "title"),))),
        ("title:(muppet^2)", Query("", (boosted("muppet", 2, "title"),))),
        (r"\title:muppet", Query("", (boosted("muppet", 1, "title"),))),
        ('"a""b"c', Query("c", tuple(Refinement("or", "contents", term) for term in "ab"))),
        ('a "b" c +d e', Query("a c e", parse('"b" +d').refinements)),
        ('"AND -x title:y ^2"', Query("", (Refinement("or", "contents", "AND -x title:y ^2"),))),
    ],
)
def test_other_ways_to_write_a_query_are_read_as_lucene_reads_them(text: str, query: Query) -> None:
    assert parse(text) == query
    assert parse(str(query)) == query


def test_an_unquoted_word_of_one_token_may_be_as_long_as_a_token() -> None:
    assert parse("+" + "a" * 255).refinements == (Refinement("+", "contents", "a" * 255),)


def test_every_query_that_lucene_answered_is_read_and_written_back(shared_data: Path) -> None:
    with lzma.open(shared_data / "oracle" / "lucene-parity.jsonl.xz", "rt", encoding="utf-8") as rows:
        queries = [parse(json.loads(row)["query"]) for row in rows]
    assert len(queries) == 806
    assert [parse(str(query)) for query in queries] == queries
