"""What a row must hold to be a passage or a question.

A `Fault` says what was found and what was expected; whoever knows the file and the line adds them.
"""

from __future__ import annotations

import json
import re
import reprlib
from typing import Any

from orienteer.data.bad_rows import Fault
from orienteer.data.lines import decoded
from orienteer.data.passage import Passage, Question

Row = dict[str, Any]

_raw_decode = json.JSONDecoder().raw_decode
# Ids are written one a line and between tabs and blanks in run files and indexes.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_KINDS = {
    dict: "an object", list: "a list", str: "a string", int: "a number",
    float: "a number", bool: "a boolean", type(None): "null",
}  # fmt: skip


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
    return Passage(id, title, text)


def question_of(row: Row) -> Question:
    """The question of {"id", "question", "answers", …}, or of BEIR's {"_id", "text"}."""
    id = row_id(row)
    name = "text" if "question" not in row and "_id" in row else "question"
    question = row.get(name)
    if type(question) is not str:
        raise _wrong(row, name, "a string")
    if not question.strip():
        raise Fault(f'the "{name}" is empty; expected a question')
    answers = row.get("answers")
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
    for field, value in (*strings.items(), *(("answers", answer) for answer in answers)):
        check_whole(field, value)
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
