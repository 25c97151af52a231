"""What a model wrote, read back: refinements, Stop, or a refusal that says why. Any text is one of the three.

Nothing in a sentence is escaped and wordpieces come back in lower case with blanks around signs, so that reading is
lenient: letters of either case, blanks anywhere, quotes or none, a list of plain terms, several sentences at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orienteer.errors import QueryError
from orienteer.query import Field, Op, Refinement
from orienteer.query.refinement import clean

_HEAD = re.compile(r"(?:\b(contents|title)\s+(must|cannot|should)|\bshould)\s+contain\s*:", re.IGNORECASE)
_STOP = re.compile(r"\s*stop\s*\.?\s*", re.IGNORECASE)
_BOOST = re.compile(r"\s+boost\s+(\d{1,4}(?:\s*\.\s*\d{1,4})?)$", re.IGNORECASE)
_BETWEEN = re.compile(r"'\s*,\s+'")
_QUOTES = "'\"‘’“”`"
_OPS: dict[str, Op] = {"must": "+", "cannot": "-", "should": "^"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read: refinements in their order, or `stop`; neither where it was refused, and `why`."""

    refinements: tuple[Refinement, ...] = ()
    stop: bool = False
    why: str = ""


def parse_output(text: str) -> Parsed:
    """Never raises."""
    if _STOP.fullmatch(text):
        return Parsed(stop=True)
    heads = list(_HEAD.finditer(text))
    if not heads:
        return Parsed(why="no refinement in it" if text.strip() else "empty")
    found: list[Refinement] = []
    why = ""
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : after.start() if after else len(text)]
        try:
            found += _refinements(head[1], head[2], body)
        except (QueryError, ValueError) as error:
            why = why or str(error).splitlines()[0]
    return Parsed(tuple(found), why="" if found else why)


def _refinements(field: str | None, verb: str | None, body: str) -> Iterator[Refinement]:
    body = clean(body).removesuffix(".").rstrip()
    if field is None or verb is None:
        for term in _BETWEEN.split(body):
            yield Refinement("or", "contents", _unquoted(term))
        return
    op, place = _OPS[verb.lower()], _field(field)
    boost = _BOOST.search(body)
    term = _unquoted(body[: boost.start()] if boost else body)
    if op == "^":
        if boost is None:
            raise ValueError("a boost without its weight")
        yield Refinement(op, place, term, float("".join(boost[1].split())))
    elif boost is not None and not body.endswith(tuple(_QUOTES)):
        raise ValueError(f"a boost on a refinement with {verb!r}, which takes none")
    else:
        yield Refinement(op, place, _unquoted(body))


def _field(name: str) -> Field:
    return "title" if name.lower() == "title" else "contents"


def _unquoted(text: str) -> str:
    """The term without the quotes around it: one at either end, an apostrophe inside stays."""
    text = text.strip()
    if text[:1] and text[0] in _QUOTES:
        text = text[1:]
    if text[-1:] and text[-1] in _QUOTES:
        text = text[:-1]
    return text.strip()
