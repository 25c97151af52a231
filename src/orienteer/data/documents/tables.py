"""CSV and TSV: each row is a passage, `column: value` by `column: value`, its columns kept as metadata."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from orienteer.data.documents.blocks import Block, Document
from orienteer.data.documents.encodings import text_lines
from orienteer.data.rows import Fault

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,12})?")


def table(blocks: Iterable[bytes], *, tabs: bool) -> Document:
    lines = (line + "\n" for _, _, line in text_lines(blocks))
    head = list(islice(lines, 20))
    delimiter = "\t" if tabs else _delimiter(head)
    return Document(_rows(csv.reader(chain(head, lines), delimiter=delimiter)), rows=True)


def _delimiter(head: list[str]) -> str:
    """What the header has most of."""
    header = next((line for line in head if line.strip()), "")
    return max(",;\t|", key=header.count)


def _rows(reader: Any) -> Iterator[Block]:
    at = 0
    try:
        header: list[str] = next(reader, [])
        names = [name.strip() or f"column {number}" for number, name in enumerate(header, 1)]
        for row in reader:
            pairs = [(name, value.strip()) for name, value in zip(names, row, strict=False) if value.strip()]
            if pairs:
                text = "\n".join(f"{name}: {value}" for name, value in pairs)
                yield Block(text, at, line=reader.line_num, fields={name: _typed(value) for name, value in pairs})
                at += len(text) + 2
    except csv.Error as error:
        raise Fault(f"line {reader.line_num}: {error}") from None


def _typed(value: str) -> str | int | float:
    if not _NUMBER.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)
