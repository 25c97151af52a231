"""Markdown for the report: tables, and text from elsewhere that must stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NONE = "–"
# What makes marks, tags, tables and formulas inside a line; and what makes a bare address a link.
_MEANINGFUL = re.compile(r"[\\`*_\[\]|~$<>&]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", ":": "&#58;", ".": "&#46;"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table with its first `left` columns flush left, the others flush right."""
    rule = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows)) + "\n"


def plain(text: str) -> str:
    """Retrieved text as text: on one line, without control characters, nothing in it a mark, a tag or a link.

    It must not stand at the beginning of a line, where a number or a dash would have a meaning too.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _MEANINGFUL.sub(lambda found: _ENTITIES.get(found[0]) or f"\\{found[0]}", line)


def code(text: str) -> str:
    """Text in a table's cell as it is written: an agent's name, a query."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def ranked(values: Sequence[float | None], digits: int = 2) -> list[str]:
    """Numbers with the largest in bold and the second-largest underlined, as in `tab:PRF-results`."""
    shown = [number(value, digits) for value in values]
    largest = sorted({text for text, value in zip(shown, values, strict=True) if value is not None}, key=float)[::-1]
    marks = dict(zip(largest[:2], ("**{}**", "<ins>{}</ins>"), strict=False))
    return [marks.get(text, "{}").format(text) for text in shown]
