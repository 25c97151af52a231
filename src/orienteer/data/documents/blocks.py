"""What every document format gives: a document's own facts, and its text as blocks in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Block:
    """A heading (`level` 1, 2, …), a paragraph (`level` 0) or a row of a table.

    start   offset of `text` in the document's text
    page    from 1, where the format has pages; `last_page` where the text goes on over the page's end
    line    from 1, where the format has lines; else 0
    fields  a table row's columns by name
    """

    text: str
    start: int
    level: int = 0
    page: int | None = None
    last_page: int | None = None
    line: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Document:
    """`title`, `language` and `date` are what the document says of itself, empty where it says nothing.

    rows   each block is a passage of its own: a table
    clean  takes a stretch of the document's text to what a passage shows: markup and line-end hyphens gone
    """

    blocks: Iterable[Block]
    title: str = ""
    language: str = ""
    date: str = ""
    rows: bool = False
    clean: Callable[[str], str] = _unchanged


def placed(blocks: Iterable[tuple[str, int]], at: int = 0) -> Iterator[Block]:
    """Texts with their levels as blocks of one text in which a blank line stands between them."""
    for text, level in blocks:
        yield Block(text, at, level)
        at += len(text) + 2
