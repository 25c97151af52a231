"""A text cut into passages of about 100 words: between paragraphs, else sentences, else words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

WORDS = 100
_LONGEST = WORDS * 3 // 2  # A paragraph or sentence up to here is kept whole.
_FULL = WORDS * 6 // 5  # Paragraphs share a passage up to here.
_PARAGRAPH_LINES = 1000  # A text without blank lines still comes in bounded pieces.

_SENTENCE = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”]*""")
_WORD = re.compile(r"\s+")
_CHARACTERS = re.compile(r"(?s).{400}")

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NOT_UNDERLINED = re.compile(r"\s*([-*+>|]|\d+[.)])")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_TITLE = re.compile(r"""title:\s*["']?(.*?)["']?\s*""")
_FRONT_LINES = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text, the line it starts at, and the title it stands under."""

    line: int
    title: str
    text: str


def split_text(lines: Iterable[tuple[int, str]], name: str, markdown: bool) -> Iterator[Piece]:
    """The passages of a text; its headings make the titles, `name` does where there is none."""
    paragraphs = _markdown_paragraphs(iter(lines), name) if markdown else _paragraphs(lines, name)
    waiting: list[Piece] = []
    size = 0
    for paragraph in paragraphs:
        line = paragraph.line
        for part in cut(paragraph.text):
            more = words(part)
            if waiting and (waiting[0].title != paragraph.title or size + more > _FULL):
                yield _joined(waiting)
                waiting, size = [], 0
            if part.strip():
                start = line + part[: len(part) - len(part.lstrip())].count("\n")
                waiting.append(Piece(start, paragraph.title, part.strip()))
                size += more
            line += part.count("\n")
    if waiting:
        yield _joined(waiting)


def words(text: str) -> int:
    """How many words; eight characters are at least one, for scripts and tables without blanks."""
    return max(len(text.split()), len(text) // 8)


def cut(text: str) -> list[str]:
    """The text in pieces of about 100 words of even length; joined, they are the text."""
    return _cut(text, (_SENTENCE, _WORD, _CHARACTERS))


def _cut(text: str, boundaries: tuple[re.Pattern[str], ...]) -> list[str]:
    size = words(text)
    if size <= _LONGEST or not boundaries:
        return [text]
    ends = [match.end() for match in boundaries[0].finditer(text)]
    spans = zip([0, *ends], [*ends, len(text)], strict=True)
    parts = [text[start:end] for start, end in spans if start < end]
    return _gathered(list(chain.from_iterable(_cut(part, boundaries[1:]) for part in parts)))


def _gathered(parts: list[str]) -> list[str]:
    """Neighbours joined until each has its even share of the whole."""
    sizes = [words(part) for part in parts]
    share = sum(sizes) / max(1, round(sum(sizes) / WORDS))
    gathered: list[str] = []
    open_parts: list[str] = []
    done = 0.0
    for part, size in zip(parts, sizes, strict=True):
        if open_parts and done + size / 2 > share * (len(gathered) + 1):
            gathered.append("".join(open_parts))
            open_parts = []
        open_parts.append(part)
        done += size
    return [*gathered, "".join(open_parts)]


def _joined(pieces: list[Piece]) -> Piece:
    return Piece(pieces[0].line, pieces[0].title, "\n\n".join(piece.text for piece in pieces))


def _paragraphs(lines: Iterable[tuple[int, str]], title: str) -> Iterator[Piece]:
    gathered: list[str] = []
    start = 0
    for number, line in lines:
        if line.strip():
            start = start if gathered else number
            gathered.append(line)
        if gathered and (not line.strip() or len(gathered) == _PARAGRAPH_LINES):
            yield Piece(start, title, "\n".join(gathered))
            gathered = []
    if gathered:
        yield Piece(start, title, "\n".join(gathered))


def _markdown_paragraphs(lines: Iterator[tuple[int, str]], name: str) -> Iterator[Piece]:
    """Paragraphs under `first heading: heading: …`; fences and front matter are understood, no more."""
    first, lines = _front_matter(lines)
    headings: dict[int, str] = {}
    fence = ""
    gathered: list[str] = []
    start = 0

    def title() -> str:
        return ": ".join(dict.fromkeys(filter(None, [first or name, *headings.values()])))

    for number, line in lines:
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
            and len(gathered) == 1
            and (found := _UNDERLINE.fullmatch(line))
            and not _NOT_UNDERLINED.match(gathered[0])
        ):
            level, heading = 1 if found[1][0] == "=" else 2, gathered.pop().strip()
        ends = level or not line.strip() or len(gathered) == _PARAGRAPH_LINES
        if gathered and ends:
            yield Piece(start, title(), "\n".join(gathered))
            gathered = []
        if level:
            headings = {above: text for above, text in headings.items() if above < level} | {level: heading}
            first = first or heading
        elif line.strip():
            start = start if gathered else number
            gathered.append(line)
    if gathered:
        yield Piece(start, title(), "\n".join(gathered))


def _front_matter(lines: Iterator[tuple[int, str]]) -> tuple[str, Iterator[tuple[int, str]]]:
    """The title in the block between `---` that may open a file, and the lines after the block."""
    head = list(islice(lines, 1))
    if not head or head[0][1].rstrip() != "---":
        return "", chain(head, lines)
    head += islice(lines, _FRONT_LINES)
    for place, (_, line) in enumerate(head[1:], 1):
        if line.rstrip() in ("---", "..."):
            titles = (_FRONT_TITLE.fullmatch(text) for _, text in head[1:place])
            return next((found[1] for found in titles if found), ""), chain(head[place + 1 :], lines)
    return "", chain(head, lines)
