"""JSONL in and out: one object a line, `{"id", "title", "text"}` or `{"id", "question", "answers", …}`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from orienteer.data.atomic import atomic_path
from orienteer.data.compression import compressed, plain_name, shown
from orienteer.data.passage import Passage, Question
from orienteer.data.rows import Fault, Report, check_id, filled_lines, parse_object, passage_of, question_of
from orienteer.errors import DataError

SUFFIXES = (".jsonl", ".ndjson")


def passages(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Passage]]:
    """Each passage with its line."""
    for number, line in filled_lines(blocks):
        try:
            passage = passage_of(parse_object(line))
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, passage


def questions(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Question]]:
    """Each question with its line."""
    for number, line in filled_lines(blocks):
        try:
            question = question_of(parse_object(line))
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, question


def write_jsonl(path: str | os.PathLike[str], rows: Iterable[Passage | Question]) -> int:
    """Writes passages or questions, compressed as the suffix says, atomically, and returns how many."""
    path = Path(path)
    if not plain_name(path).lower().endswith(SUFFIXES):
        raise DataError(f"{shown(path)}: expected a name in .jsonl, .jsonl.gz, .jsonl.xz or .jsonl.zst")
    count = 0
    with atomic_path(path) as partial, partial.open("wb") as raw, compressed(raw, path) as out:
        for count, row in enumerate(rows, 1):
            out.write(_line(count, row))
    return count


def _line(number: int, row: Passage | Question) -> bytes:
    try:
        check_id(row.id)
        return json.dumps(_fields(row), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        raise DataError(
            f"row {number}, id {row.id!r}: a lone surrogate, which no file can hold; fix the text"
        ) from None
    except Fault as fault:
        raise DataError(f"row {number}: {fault}") from None


def _fields(row: Passage | Question) -> dict[str, Any]:
    if isinstance(row, Passage):
        return {"id": row.id, "title": row.title, "text": row.text, **row.metadata}
    fields: dict[str, Any] = {"id": row.id, "question": row.question, "answers": list(row.answers)}
    if row.source:
        fields["source"] = row.source
    if row.passage_id is not None:
        fields["passage_id"] = row.passage_id
    if row.answer_start is not None:
        fields["answer_start"] = row.answer_start
    return fields
