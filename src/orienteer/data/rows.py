"""Rows of a file: numbered lines, what a row must hold to be a passage or a question, bad rows.

A `Fault` says what was found and what was expected; whoever knows the file and the line adds them.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from orienteer.data.passage import Passage, Question
from orienteer.errors import DataError

MAX_LINE = 64 << 20  # Without a bound a file without a line break would be read whole into memory.

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
Row = dict[str, Any]
_PASSAGE_FIELDS = frozenset({"id", "_id", "title", "text"})

_raw_decode = json.JSONDecoder().raw_decode
# Ids are written one a line and between tabs and blanks in run files and indexes.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_KINDS = {
    dict: "an object", list: "a list", str: "a string", int: "a number",
    float: "a number", bool: "a boolean", type(None): "null",
}  # fmt: skip


class Fault(DataError):
    """What was found and what was expected, before its place is known; a user sees it with file and line."""


Report = Callable[[int, Fault], None]
"""What a format calls with a bad row's number: it raises, or counts and returns."""

OnBad = Callable[[DataError], None]


@dataclass(slots=True)
class BadRows:
    """Counts bad rows and keeps the first few messages; pass it as `on_bad`."""

    keep: int = 5
    count: int = 0
    first: list[str] = field(default_factory=list)

    def __call__(self, error: DataError) -> None:
        self.count += 1
        if len(self.first) < self.keep:
            self.first.append(str(error))

    def __str__(self) -> str:
        if not self.count:
            return "no bad rows"
        lines = [f"{self.count:,} bad row{'s' if self.count > 1 else ''} skipped", *self.first]
        if self.count > len(self.first):
            lines.append(f"and {self.count - len(self.first):,} more")
        return "\n  ".join(lines)


def numbered_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    r"""Each line with its number from 1, without its `\n`; nothing else ends a line."""
    number, rest = 1, b""
    for block in blocks:
        if number == 1 and not rest:
            block = _without_mark(block)
        lines = block.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        if len(rest) > MAX_LINE:
            raise Fault(
                f"line {number + len(lines)} is longer than {MAX_LINE >> 20} MiB; "
                "expected one row a line: is this another format?"
            )
        yield from enumerate(lines, number)
        number += len(lines)
    if rest:
        yield number, rest


def filled_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank."""
    for numbered in numbered_lines(blocks):
        if not numbered[1].isspace() and numbered[1]:
            yield numbered


def decoded(line: bytes) -> str:
    """The line as text; raises `Fault` where it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Fault(
            f"invalid UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line; "
            "save the file as UTF-8"
        ) from None


def _without_mark(block: bytes) -> bytes:
    if block.startswith(_UTF16_MARKS):
        raise Fault("the file is UTF-16; expected UTF-8: save it as UTF-8")
    return block.removeprefix(_UTF8_MARK)


def parse_object(line: bytes) -> Row:
    """The JSON object of a line."""
    # json.loads spends a third of its time around the decoder: that is what is left out here.
    text = decoded(line).strip(" \t\r\n")
    try:
        row, end = _raw_decode(text)
    except RecursionError:
        raise Fault("JSON nested too deep; expected an object with id, title and text") from None
    except ValueError as error:
        raise Fault(f"invalid JSON: {error}; expected one object a line") from None
    if end != len(text):
        raise Fault(f"something after the JSON object, at character {end + 1}; expected one object a line")
    if type(row) is not dict:
        raise Fault(f"found {kind(row)}, expected a JSON object")
    return row


def passage_of(row: Row) -> Passage:
    """The passage of {"id", "title", "text"}; BEIR's "_id" is an id too."""
    id = row_id(row)
    title = row.get("title")
    text = row.get("text")
    if title is None:
        title = ""
    elif type(title) is not str:
        raise Fault(f'the "title" is {kind(title)}; expected a string, or none')
    if type(text) is not str:
        raise _wrong(row, "text", "a string")
    if not (text.isascii() and title.isascii() and id.isascii()):
        check_whole("id", id)
        check_whole("title", title)
        check_whole("text", text)
    return Passage(id, title, text, {name: value for name, value in row.items() if name not in _PASSAGE_FIELDS})


def question_of(row: Row) -> Question:
    """The question of {"id", "question", "answers", …}, or of BEIR's {"_id", "text"}, answers in its "metadata"."""
    id = row_id(row)
    name = "text" if "question" not in row and "_id" in row else "question"
    question = row.get(name)
    if type(question) is not str:
        raise _wrong(row, name, "a string")
    if not question.strip():
        raise Fault(f'the "{name}" is empty; expected a question')
    answers = row.get("answers")
    if answers is None and type(row.get("metadata")) is dict:
        answers = row["metadata"].get("answers")
    if answers is None:
        answers = ()
    elif type(answers) is not list:
        raise _wrong(row, "answers", "a list of strings")
    for answer in answers:
        if type(answer) is not str:
            raise Fault(f'one of the "answers" is {kind(answer)}; expected strings')
    source = row.get("source")
    if source is None:
        source = ""
    elif type(source) is not str:
        raise _wrong(row, "source", "a string, or none")
    passage_id = None if row.get("passage_id") is None else check_id(row["passage_id"], "passage_id")
    start = row.get("answer_start")
    if start is not None and (type(start) is not int or start < 0):
        raise Fault(f'the "answer_start" is {reprlib.repr(start)}; expected a character offset from 0, or none')
    strings = {"id": id, name: question, "source": source, "passage_id": passage_id or ""}
    for column, value in (*strings.items(), *(("answers", answer) for answer in answers)):
        check_whole(column, value)
    return Question(id, question, tuple(answers), source, passage_id, start)


def row_id(row: Row) -> str:
    value = row.get("id")
    if value is None:
        value = row.get("_id")
        if value is None:
            raise _wrong(row, "id", "a string or an integer")
    return check_id(value)


def check_id(value: object, field: str = "id") -> str:
    """An id: a string of something printable, or an integer, which counts as its decimal string."""
    if type(value) is int:
        return str(value)
    if type(value) is not str:
        raise Fault(f'the "{field}" is {kind(value)}; expected a string or an integer')
    if not value.isprintable() and (found := _CONTROL.search(value)):
        raise Fault(f'the "{field}" {reprlib.repr(value)} holds the control character {found[0]!r}; expected none')
    if not value or value.isspace():
        raise Fault(f'the "{field}" is empty; expected a string or an integer')
    return value


def check_whole(field: str, text: str) -> None:
    """Refuses a lone surrogate: half a character, which no file can hold."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Fault(
            f'the "{field}" holds the lone surrogate {text[error.start]!r} at character {error.start + 1}; '
            "expected whole Unicode characters"
        ) from None


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def _wrong(row: Row, field: str, expected: str) -> Fault:
    if field in row:
        return Fault(f'the "{field}" is {kind(row[field])}; expected {expected}')
    fields = ", ".join(map(reprlib.repr, list(row)[:6])) or "nothing"
    return Fault(f'no "{field}" (the row has {fields}); expected {expected}')
