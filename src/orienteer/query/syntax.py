r"""Lucene's query syntax, in and out.

    query    ::= clause*
    clause   ::= [+ | -] body
    body     ::= [field:] (word | "phrase") [^boost]  |  ( body ) [^boost]

A bare word is part of the question, and so is an operator with a blank after it, as in Lucene; everything
else is a refinement. The plain-term refinement is written in quotes (`"muppet"`), which Lucene reads as the
same clause, so that `parse(str(q)) == q`. What Lucene also reads but Orienteer does not offer (wildcards,
ranges, fuzzy terms, `AND`/`OR`/`NOT`, groups of several clauses) is refused at its place, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

from orienteer.errors import BoostError, QueryError, QuerySyntaxError, UnknownFieldError
from orienteer.query.refinement import FIELDS, MAX_BOOST, MAX_CLAUSES, Field, Op, Query, Refinement

_SPECIAL = re.compile(r'[\\+\-!():^\[\]"{}~*?|&/]')
_KEYWORD = re.compile(r"(?<!\S)(?=(?:AND|OR|NOT)(?!\S))")
_SPACE = " \t\n\r\u3000"
_WORD = re.compile(rf'(?:[^{_SPACE}!():^\[\]"{{}}~*?/\\&|]|\\.|&(?!&)|\|(?!\|))*+', re.DOTALL)
_QUOTED = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# A word of which the analyser can make only one term, so that Lucene reads it like the same word in quotes:
# letters and digits of scripts with blanks between words, apostrophes between letters, at most a whole token.
_LETTERS = r"[^\W²³¹¼½¾\u0870-\u1dff\u2000-\U0010ffff]"
_ONE_TERM = re.compile(rf"(?!.{{256}}){_LETTERS}+(?:(?<=[^\W\d_])['’](?=[^\W\d_]){_LETTERS}+)*", re.DOTALL)
_MAX_DEPTH = 8
_OFFERED = "Orienteer offers +, -, ^boost, quotes and the fields contents and title"


def escape(text: str) -> str:
    """As Lucene's `QueryParser.escape`: a backslash before every character that has a meaning."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def render(query: Query) -> str:
    # An escaped first letter keeps Lucene from reading the words AND, OR, NOT as operators.
    question = _KEYWORD.sub(r"\\", escape(query.question))
    return " ".join(filter(None, [question, *map(render_refinement, query.refinements)]))


def render_refinement(refinement: Refinement) -> str:
    quoted = f'"{escape(refinement.term)}"'
    match refinement.op:
        case "or":
            return quoted
        case "^":
            return f"({refinement.field}:{quoted}^{_decimal(refinement.weight)})"
        case op:
            return f"{op}({refinement.field}:{quoted})"


def parse(text: str) -> Query:
    """The query that `text` writes; raises a `QueryError` that points at the place."""
    return _Parser(text).query()


def _decimal(weight: float) -> str:
    """The shortest decimal that reads back as `weight`; Lucene's numbers have no exponent."""
    return format(Decimal(repr(float(weight))).normalize(), "f")


class _Parser:
    def __init__(self, text: str):
        self.text, self.at = text, 0

    def query(self) -> Query:
        words: list[str] = []
        refinements: list[Refinement] = []
        places: list[int] = []
        while self._skip_space() and len(places) <= MAX_CLAUSES:
            start = self.at
            op: Op = "or"
            if self.text[self.at] in "+-":
                op = "+" if self.text[self.at] == "+" else "-"
                self.at += 1
                if self.at == len(self.text):
                    raise self._error(f"an operator without a term; write {op}term or \\{op}", start)
                if self.text[self.at] in _SPACE:
                    words.append(op)
                    places.append(start)
                    continue
            field, term, quoted, weight = self._body(None, 0)
            if op == "or" and not quoted and weight is None and field is None:
                with self._pointing_at(start):
                    question = Query(term).question.split()
                words += question
                places += [start] * len(question)
                continue
            if not quoted and not _ONE_TERM.fullmatch(term):
                raise self._error("this may be several terms; write it in quotes, as a phrase", start)
            if weight is not None and op != "or":
                raise self._error("+ and - take no boost; write the boosted term as its own clause", start)
            if weight is not None or field is not None:
                op = op if op != "or" else "^"
            with self._pointing_at(start):
                refinements.append(Refinement(op, field or "contents", term, weight or 1.0))
            places.append(start)
        with self._pointing_at(places[MAX_CLAUSES] if len(places) > MAX_CLAUSES else 0):
            return Query(" ".join(words), tuple(refinements))

    def _body(self, field: Field | None, depth: int) -> tuple[Field | None, str, bool, float | None]:
        """One clause after its operator: field, term, whether it was quoted, boost."""
        start = self.at
        character = self.text[self.at]
        if character == "(":
            if depth == _MAX_DEPTH:
                raise self._error(f"parentheses more than {_MAX_DEPTH} deep; one pair is enough", start)
            self.at += 1
            self._need("a term after (", start)
            field, term, quoted, inner = self._body(field, depth + 1)
            self._skip_space()
            if self.at >= len(self.text):
                raise self._error("an open parenthesis; close it, or escape it as \\(", start)
            if self.text[self.at] != ")":
                raise self._error("a group of several clauses; write each clause by itself", self.at)
            self.at += 1
            outer = self._boost()
            if inner is not None and outer is not None:
                raise self._error("two boosts on one term; write one", start)
            return field, term, quoted, inner if outer is None else outer
        if character == '"':
            term = self._quoted()
            return field, term, True, self._boost()
        word = self._word()
        if self.at < len(self.text) and self.text[self.at] == ":":
            if word not in FIELDS:
                raise UnknownFieldError(
                    f"unknown field {word[:40]!r}; expected contents or title, or escape the colon as \\:",
                    self.text, start,
                )  # fmt: skip
            if field is not None:
                raise self._error("a field inside a field; name it once", start)
            self.at += 1
            self._need(f"a term after {word}:", start)
            return self._body(word, depth)
        return field, word, False, self._boost()

    def _quoted(self) -> str:
        start = self.at
        self.at += 1
        term = self._plain(self._take(_QUOTED))
        if self.at == len(self.text) or self.text[self.at] != '"':
            raise self._error('an open quote; close it, or escape it as \\"', start)
        if not term.strip():
            raise self._error("nothing between the quotes; write a term", start)
        self.at += 1
        return term

    def _word(self) -> str:
        start = self.at
        if self.text[start] in "+-":
            raise self._error("an operator inside a clause; write it once, before the clause", start)
        word = self._take(_WORD)
        after = self.text[self.at : self.at + 1]
        if not word or after not in _SPACE + "():^":
            raise self._error(f"{after} has a meaning in Lucene; {_OFFERED}; escape it as \\{after}", self.at)
        if word in ("AND", "OR", "NOT"):
            raise self._error(f"{word} is an operator in Lucene; {_OFFERED}; escape it as \\{word}", start)
        return self._plain(word)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        taken = match[0] if match else ""
        self.at += len(taken)
        return taken

    def _plain(self, taken: str) -> str:
        """What the text just taken says, its escapes resolved."""
        start = self.at - len(taken)

        def character(escape: re.Match[str]) -> str:
            if escape[1]:
                return chr(int(escape[1], 16))
            if escape[0] == "\\u":
                place = start + escape.start()
                raise self._error("\\u without four hexadecimal digits; write u for the letter", place)
            return escape[0][1]

        return _ESCAPE.sub(character, taken)

    def _boost(self) -> float | None:
        if self.at >= len(self.text) or self.text[self.at] != "^":
            return None
        number = _NUMBER.match(self.text, self.at + 1)
        if number is None:
            raise BoostError(
                f"^ without a number; write a boost above 0 and at most {MAX_BOOST:g}, or escape it as \\^",
                self.text, self.at,
            )  # fmt: skip
        weight = float(number[0])
        if not 0.0 < weight <= MAX_BOOST:
            raise BoostError(
                f"a boost of {number[0][:20]}; expected more than 0 and at most {MAX_BOOST:g}",
                self.text, self.at,
            )  # fmt: skip
        self.at = number.end()
        if self.at < len(self.text) and self.text[self.at] not in _SPACE + ")":
            raise self._error("a boost must be followed by a space", self.at)
        return weight

    @contextmanager
    def _pointing_at(self, place: int) -> Iterator[None]:
        """What is wrong with a query or refinement made here is wrong at `place` of the text."""
        try:
            yield
        except QueryError as error:
            raise type(error)(error.message, self.text, place) from None

    def _need(self, what: str, start: int) -> None:
        if not self._skip_space():
            raise self._error(f"the query ends where {what} was expected", start)

    def _skip_space(self) -> bool:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1
        return self.at < len(self.text)

    def _error(self, message: str, place: int) -> QuerySyntaxError:
        return QuerySyntaxError(message, self.text, place)
