"""Plain text, Markdown and reStructuredText, line by line, in memory that does not grow with the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from orienteer.data.documents.blocks import Block, Document
from orienteer.data.documents.encodings import text_lines

Lines = Iterable[tuple[int, int, str]]
"""(line number, offset, line)"""

_PARAGRAPH_LINES = 1000  # A text without blank lines still comes in bounded pieces,
_PARAGRAPH_CHARACTERS = 1 << 18  # and so does one without line ends.

_HYPHENATED = re.compile(r"(?<=[^\W\d_])-\n[ \t]*(?=[^\W\d_])(?=[a-zà-öø-ÿ])")

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NOT_UNDERLINED = re.compile(r"\s*([-*+>|]|\d+[.)])")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"""(title|date|lang|language):\s*["']?(.*?)["']?\s*""")
_FRONT_LINES = 100

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+\s*")
_DIRECTIVE = re.compile(r"(\s*)\.\. +(?:\|[^|]+\| +)?([\w:.+-]+?)::(?:\s+(.*))?$")
_COMMENT = re.compile(r"(\s*)\.\.(?:\s|$)(?!\s*\[)")
_OPTION = re.compile(r"\s*:[\w -]+:(\s|$)")
_NO_TEXT = frozenset(
    "toctree image figure include literalinclude contents index raw only highlight default-role meta tabularcolumns "
    "currentmodule module automodule autoclass autofunction autosummary program sectnum".split()
)
_INLINE = (
    (re.compile(r":[\w:.+-]+:`(?:[~!])?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*(?:<[^`>]*>)?`_{0,2}"), r"\1"),
    (re.compile(r"\*\*(.+?)\*\*"), r"\1"),
    (re.compile(r"(?<![\w*])\*([^\s*][^*\n]*?)\*(?![\w*])"), r"\1"),
    (re.compile(r"::(?=\s*$)", re.M), ":"),
)


def plain_text(blocks: Iterable[bytes]) -> Document:
    return Document(paragraphs(text_lines(blocks)), clean=joined_hyphens)


def markdown(blocks: Iterable[bytes]) -> Document:
    front, lines = _front_matter(text_lines(blocks))
    return Document(
        markdown_blocks(lines), front.get("title", ""), front.get("lang", "") or front.get("language", ""),
        front.get("date", ""),
    )  # fmt: skip


def restructured_text(blocks: Iterable[bytes]) -> Document:
    return Document(_rst_blocks(text_lines(blocks)), clean=_without_roles)


def joined_hyphens(text: str) -> str:
    """Words that were divided at the end of a line, whole again."""
    return _HYPHENATED.sub("", text.replace("\u00ad\n", "").replace("\u00ad", ""))


def paragraphs(lines: Lines) -> Iterator[Block]:
    """Stretches of lines between blank ones."""
    gathered = _Gathered()
    for number, offset, line in lines:
        if not line.strip() or gathered.full:
            yield from gathered.take()
        if line.strip():
            gathered.add(number, offset, line)
    yield from gathered.take()


class _Gathered:
    """The lines of a paragraph that goes on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.number = self.offset = self.size = 0

    @property
    def full(self) -> bool:
        return len(self.lines) >= _PARAGRAPH_LINES or self.size >= _PARAGRAPH_CHARACTERS

    def add(self, number: int, offset: int, line: str) -> None:
        if not self.lines:
            self.number, self.offset = number, offset
        elif offset == self.offset + self.size:  # a piece of the same very long line
            self.lines[-1] += line
            self.size += len(line)
            return
        self.size += len(line) + (1 if self.lines else 0)
        self.lines.append(line)

    def take(self) -> list[Block]:
        block = [Block("\n".join(self.lines), self.offset, line=self.number)] if self.lines else []
        self.lines, self.size = [], 0
        return block


def markdown_blocks(lines: Lines) -> Iterator[Block]:
    """Headings and paragraphs; fences are understood, no more."""
    fence = ""
    gathered = _Gathered()
    for number, offset, line in lines:
        level, heading = 0, ""
        if opened := _FENCE.match(line):
            if not fence:
                fence = opened[1]
            elif opened[1].startswith(fence) and not line[opened.end() :].strip():
                fence = ""
        elif not fence and (found := _HEADING.fullmatch(line)):
            level, heading = len(found[1]), (found[2] or "").strip()
        elif (
            not fence
            and len(gathered.lines) == 1
            and (found := _UNDERLINE.fullmatch(line))
            and not _NOT_UNDERLINED.match(gathered.lines[0])
        ):
            level, heading = 1 if found[1][0] == "=" else 2, gathered.lines[0].strip()
            gathered.take()
        if level or not line.strip() or gathered.full:
            yield from gathered.take()
        if level:
            yield Block(heading, offset, level, line=number)
        elif line.strip():
            gathered.add(number, offset, line)
    yield from gathered.take()


def _front_matter(lines: Iterator[tuple[int, int, str]]) -> tuple[dict[str, str], Iterator[tuple[int, int, str]]]:
    """What the block between `---` that may open a file says, and the lines after the block."""
    head = list(islice(lines, 1))
    if not head or head[0][2].rstrip() != "---":
        return {}, chain(head, lines)
    head += islice(lines, _FRONT_LINES)
    for place, (_, _, line) in enumerate(head[1:], 1):
        if line.rstrip() in ("---", "..."):
            pairs = (_FRONT.fullmatch(text) for _, _, text in head[1:place])
            return {found[1]: found[2] for found in reversed(list(pairs)) if found}, chain(head[place + 1 :], lines)
    return {}, chain(head, lines)


def _rst_blocks(lines: Lines) -> Iterator[Block]:
    """Headings are told by the line under them; a directive's name and options go, its text stays."""
    levels: list[str] = []  # adornments in the order of their first use, as reStructuredText ranks them
    dropped = -1  # indentation of a comment or directive whose indented text is not for readers
    for block in paragraphs(lines):
        rows = block.text.split("\n")
        indent = len(rows[0]) - len(rows[0].lstrip())
        if 0 <= dropped < indent:
            continue
        dropped = -1
        start, number = block.start, block.line
        style = _adorned(rows)
        if style is not None:
            if style not in levels:
                levels.append(style)
            size = 3 if len(style) == 2 else 2
            yield Block(_without_roles(rows[size - 2].strip()), start, levels.index(style) + 1, line=number)
            start, number, rows = _after(start, number, rows, size)
        elif directive := _DIRECTIVE.match(rows[0]):
            if directive[2] in _NO_TEXT or directive[2].endswith("code"):
                dropped = indent
                continue
            argument = directive[3] or ""
            size = 1
            while size < len(rows) and _OPTION.match(rows[size]):
                size += 1
            if argument:
                yield Block(argument, start + rows[0].rindex(argument), line=number)
            start, number, rows = _after(start, number, rows, size)
        elif _COMMENT.match(rows[0]):
            dropped = indent
            continue
        if rows and not all(_ADORNMENT.fullmatch(row) for row in rows):
            yield Block("\n".join(rows), start, line=number)


def _adorned(rows: list[str]) -> str | None:
    """`=` for a title underlined with it, `==` for one with a line above it too."""
    if len(rows) > 2 and _ADORNMENT.fullmatch(rows[0]) and rows[0].strip() == rows[2].strip() and rows[1].strip():
        return rows[0][0] * 2
    if len(rows) > 1 and _ADORNMENT.fullmatch(rows[1]) and not _ADORNMENT.fullmatch(rows[0]):
        long_enough = len(rows[1].strip()) >= min(4, len(rows[0].strip()))
        return rows[1][0] if long_enough and not rows[0].startswith(" ") else None
    return None


def _after(start: int, number: int, rows: list[str], size: int) -> tuple[int, int, list[str]]:
    return start + sum(len(row) + 1 for row in rows[:size]), number + size, rows[size:]


def _without_roles(text: str) -> str:
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text
