r"""Filters over the metadata of passages: `year>=2020 and folder:reports`.

    filter      ::= term ("or" term)*
    term        ::= factor ("and" factor)*
    factor      ::= "not" factor | "(" filter ")" | comparison
    comparison  ::= field (= | != | < | <= | > | >=) value  |  field : value  |  field : *
    value       ::= word | "text"

`=` is equality. `:` holds where the value is the whole, an item of a list, or whole words of a text, in any case of its
letters; `field:*` holds where there is a value. Numbers are compared as numbers, also those that stand in quotes in the
metadata; dates (2021, 2021-03, 2021-03-14) as far as the shorter of both goes, so that `date<=2020` holds for all of
2020; everything else as text. A passage without the field fulfils no comparison but `!=`. `year` is the date where a
passage has no `year` of its own, `type` the suffix of its file (`pdf`) where it has no `type`; `a.b` is the field `b`
of the object `a`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal

from orienteer.errors import FilterError

MAX_LENGTH = 4096
MAX_DEPTH = 64

Operator = Literal["=", "!=", "<", "<=", ">", ">=", ":"]
ANYTHING = "*"

_TOKEN = re.compile(r'\s*(?:([()])|(<=|>=|!=|==|[=<>:])|"((?:[^"\\]|\\.)*)"|([^\s()<>=!:"]+)|(\S))', re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?", re.ASCII)
_COMPRESSED = (".gz", ".xz", ".zst")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_EXPECTED = 'write conditions such as year>=2020, folder:reports or author="A. Writer", joined by and, or, not'


@dataclass(frozen=True, slots=True)
class Comparison:
    """One condition on one field; `value` as it was written."""

    field: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class Not:
    part: Where


@dataclass(frozen=True, slots=True)
class Both:
    """All of the parts hold."""

    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts holds, or several."""

    parts: tuple[Where, ...]


Where = Comparison | Not | Both | Either


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["parenthesis", "operator", "text", "word", "end"]
    text: str
    place: int


@lru_cache(maxsize=256)
def parse_where(text: str) -> Where:
    """The filter; raises `FilterError` at the place where it is none. Takes time linear in its length."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"a filter of {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    parser = _Parser(text)
    where = parser.either(0)
    if (rest := parser.token).kind != "end":
        raise FilterError(f"{rest.text!r} is not expected here; {_EXPECTED}", text, rest.place)
    return where


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = self._scan()
        self.token = next(self._tokens)

    def either(self, depth: int) -> Where:
        parts = [self._both(depth)]
        while self._takes("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self, depth: int) -> Where:
        parts = [self._factor(depth)]
        while self._takes("and"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _factor(self, depth: int) -> Where:
        if depth > MAX_DEPTH:
            raise FilterError(f"more than {MAX_DEPTH} levels of `not` and parentheses", self.text, self.token.place)
        if self._takes("not"):
            return Not(self._factor(depth + 1))
        if self.token.kind == "parenthesis" and self.token.text == "(":
            opened = self._next()
            inside = self.either(depth + 1)
            if self.token.text != ")" or self.token.kind != "parenthesis":
                raise FilterError("a parenthesis that is not closed", self.text, opened.place)
            self._next()
            return inside
        return self._comparison()

    def _comparison(self) -> Comparison:
        field = self._next()
        if field.kind not in ("word", "text") or not field.text:
            found = "the filter ends" if field.kind == "end" else f"{field.text!r} stands"
            raise FilterError(f"{found} where a field is expected; {_EXPECTED}", self.text, field.place)
        operator = self._next()
        if operator.kind != "operator":
            raise FilterError(
                f"after the field {field.text!r} comes = != < <= > >= or :, and a value", self.text, operator.place
            )
        value = self._next()
        if value.kind not in ("word", "text"):
            raise FilterError(f"{field.text}{operator.text} needs a value", self.text, value.place)
        text, sign = value.text, "=" if operator.text == "==" else operator.text
        while value.kind == "word" and self.token.text == ":" and self.token.kind == "operator":
            # A time, or an address: what has no blank in it is one value.
            self._next()
            more = self._next()
            if more.kind != "word":
                raise FilterError("a value with a colon in it stands in quotes", self.text, more.place)
            text += f":{more.text}"
        if text == ANYTHING and value.kind == "word" and sign != ":":
            raise FilterError(f"* goes with a colon: {field.text}:*", self.text, value.place)
        if text == ANYTHING and value.kind == "text":
            text = r"\*"
        return Comparison(field.text, sign, text)  # type: ignore[arg-type]

    def _takes(self, word: str) -> bool:
        if self.token.kind == "word" and self.token.text.lower() == word:
            self._next()
            return True
        return False

    def _next(self) -> _Token:
        token = self.token
        self.token = next(self._tokens)
        return token

    def _scan(self) -> Iterator[_Token]:
        place = 0
        while match := _TOKEN.match(self.text, place):
            start = match.start(match.lastindex or 0)
            parenthesis, operator, quoted, word, other = match.groups()
            if other is not None:
                message = "a quote that is not closed" if other == '"' else f"{other!r} has no meaning in a filter"
                raise FilterError(message, self.text, start)
            if parenthesis is not None:
                yield _Token("parenthesis", parenthesis, start)
            elif operator is not None:
                yield _Token("operator", operator, start)
            elif quoted is not None:
                yield _Token("text", _ESCAPED.sub(r"\1", quoted), start)
            else:
                yield _Token("word", word, start)
            place = match.end()
        while True:
            yield _Token("end", "", len(self.text))


def fields_of(where: Where) -> list[str]:
    """The fields that a filter names, each once."""
    return list(dict.fromkeys(comparison.field for comparison in _comparisons(where)))


def _comparisons(where: Where) -> Iterator[Comparison]:
    match where:
        case Comparison():
            yield where
        case Not(part):
            yield from _comparisons(part)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)


def matches(where: Where, metadata: Mapping[str, Any]) -> bool:
    """Whether a passage with this metadata passes the filter; engines must agree with it."""
    match where:
        case Comparison(field):
            return compare(where, field_value(metadata, field))
        case Not(part):
            return not matches(part, metadata)
        case Both(parts):
            return all(matches(part, metadata) for part in parts)
        case Either(parts):
            return any(matches(part, metadata) for part in parts)


def field_value(metadata: Mapping[str, Any], field: str) -> Any:
    """The value of a field; None where there is none."""
    if field in metadata:
        return metadata[field]
    if field == "year":
        return metadata.get("date")
    if field == "type":
        return _file_type(metadata.get("file"))
    value: Any = metadata
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _file_type(file: Any) -> str | None:
    if not isinstance(file, str):
        return None
    suffixes = [each.lower() for each in PurePosixPath(file).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1][1:] or None if suffixes else None


def compare(comparison: Comparison, value: Any) -> bool:
    """Whether one field's value fulfils the comparison; None is no value."""
    operator, wanted = comparison.operator, comparison.value
    if operator == "!=":
        return not compare(Comparison(comparison.field, "=", wanted), value)
    if value is None or isinstance(value, Mapping):
        return False
    if operator == ":" and wanted == ANYTHING:
        return True
    if isinstance(value, list | tuple):
        return any(compare(comparison, each) for each in value if not isinstance(each, list | tuple))
    wanted = "*" if wanted == r"\*" else wanted
    if isinstance(value, bool):
        value = "true" if value else "false"
        wanted = wanted.lower()
    order = _order(value, wanted)
    match operator:
        case "=":
            return order == 0
        case "<":
            return order < 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
        case ">=":
            return order >= 0
        case _:
            return order == 0 or (isinstance(value, str) and _holds_words(value, wanted))


def _order(value: str | float, wanted: str) -> int:
    """Below, at or above 0 where the value is below, equal to or above the wanted one."""
    text = value if isinstance(value, str) else str(value)
    if _DATE.fullmatch(wanted) and isinstance(value, str) and _DATE.fullmatch(text[:10]):
        length = min(len(wanted), len(text[:10]))
        return _sign(text[:length], wanted[:length])
    number, wanted_number = _number(value), _number(wanted)
    if number is not None and wanted_number is not None:
        return _sign(number, wanted_number)
    return _sign(text, wanted)


def _number(value: str | float) -> float | None:
    if not isinstance(value, str):
        return value if value == value else None  # JSON may hold NaN, which has no order
    return float(value) if _NUMBER.fullmatch(value) else None


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _holds_words(text: str, wanted: str) -> bool:
    """Whether the words of `wanted` stand in the text one after another."""
    text, wanted = text.casefold(), wanted.casefold()
    if not wanted:
        return False
    place = text.find(wanted)
    while place >= 0:
        end = place + len(wanted)
        if not (_joined(text, place) or _joined(text, end)):
            return True
        place = text.find(wanted, place + 1)
    return False


def _joined(text: str, place: int) -> bool:
    """Whether letters or digits stand on both sides of a place: not the edge of a word."""
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()
