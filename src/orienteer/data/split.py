"""Blocks of a document cut into passages of about 100 words: at headings, paragraphs, else sentences, else words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from orienteer.data.documents.blocks import Block

WORDS = 100

_SENTENCE = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”]*""")
_WORD = re.compile(r"\s+")
_CHARACTERS = re.compile(r"(?s).{400}")


@dataclass(frozen=True, slots=True)
class Split:
    """How long passages are.

    words    a passage has 0.6 to 1.5 times as many, where its section does
    overlap  words of whole sentences that a passage repeats from the one before it in its section
    """

    words: int = WORDS
    overlap: int = 0

    @property
    def longest(self) -> int:
        """A paragraph or sentence up to here is kept whole."""
        return self.words * 3 // 2

    @property
    def full(self) -> int:
        """Paragraphs share a passage up to here."""
        return self.words * 6 // 5

    @property
    def shortest(self) -> int:
        """What is left of a section below this joins the passage before it, if there is room."""
        return self.words * 3 // 5


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of a document: `text` is made of the document's characters `start` to `end`."""

    line: int
    title: str
    text: str
    section: str
    page: int | None
    last_page: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of a block."""

    text: str
    start: int
    line: int
    page: int | None
    last_page: int | None
    words: int


def split_blocks(
    blocks: Iterable[Block], name: str, title: str = "", clean: Callable[[str], str] = str, split: Split | None = None
) -> Iterator[Piece]:
    """The passages under `title: heading: …`; the first heading is the title where there is none, until then `name`."""
    split = split or Split()
    headings: dict[int, str] = {}
    section: list[Block] = []
    for block in blocks:
        if not block.level:
            section.append(block)
            if len(section) == 64:  # a section of any length in bounded memory
                yield from _pieces(section, name, title, headings, clean, split)
                section = []
            continue
        yield from _pieces(section, name, title, headings, clean, split)
        section = []
        heading = " ".join(clean(block.text).split())
        headings = {level: text for level, text in headings.items() if level < block.level} | {block.level: heading}
        title = title or heading
    yield from _pieces(section, name, title, headings, clean, split)


def _pieces(
    section: list[Block], name: str, title: str, headings: dict[int, str], clean: Callable[[str], str], split: Split
) -> Iterator[Piece]:
    """The passages of the blocks under one heading."""
    path = list(dict.fromkeys(filter(None, [title or name, *headings.values()])))
    groups = _groups([part for block in section for part in _parts(block, split)], split)
    for number, group in enumerate(groups):
        repeated = _tail(groups[number - 1], split.overlap) if number and split.overlap else []
        texts = [clean(part.text).strip() for part in (*repeated, *group)]
        if text := "\n\n".join(filter(None, texts)):
            first, last = (*repeated, *group)[0], group[-1]
            yield Piece(
                first.line, ": ".join(path), text, " > ".join(path[1:]), first.page, last.last_page,
                first.start, last.start + len(last.text),
            )  # fmt: skip


def _parts(block: Block, split: Split) -> Iterator[_Part]:
    start, line = block.start, block.line
    for text in cut(block.text, split):
        kept = text.strip()
        if kept:
            before = text[: len(text) - len(text.lstrip())]
            lines = line and line + before.count("\n")
            last_page = block.last_page or block.page
            yield _Part(kept, start + len(before), lines, block.page, last_page, words(text))
        start += len(text)
        line += text.count("\n") if line else 0


def _groups(parts: list[_Part], split: Split) -> list[list[_Part]]:
    groups: list[list[_Part]] = []
    size = 0
    for part in parts:
        if not groups or size + part.words > split.full:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.words
    if len(groups) > 1:
        last, before = (sum(part.words for part in group) for group in (groups[-1], groups[-2]))
        if last < split.shortest and before + last <= split.longest:
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _tail(group: list[_Part], overlap: int) -> list[_Part]:
    """The last whole sentences of a passage, of at most `overlap` words together."""
    part = group[-1]
    starts = [0, *(match.end() for match in _SENTENCE.finditer(part.text))]
    for start in starts:
        tail = part.text[start:]
        if 0 < (size := words(tail)) <= overlap and tail.strip():
            lines = part.text[:start].count("\n")
            return [_Part(tail, part.start + start, part.line and part.line + lines, part.page, part.last_page, size)]
    return []


def words(text: str) -> int:
    """How many words; eight characters are at least one, for scripts and tables without blanks."""
    return max(len(text.split()), len(text) // 8)


def cut(text: str, split: Split | None = None) -> list[str]:
    """The text in pieces of about `words` words, of even length; joined, they are the text."""
    return _cut(text, (_SENTENCE, _WORD, _CHARACTERS), split or Split())


def _cut(text: str, boundaries: tuple[re.Pattern[str], ...], split: Split) -> list[str]:
    size = words(text)
    if size <= split.longest or not boundaries:
        return [text]
    ends = [match.end() for match in boundaries[0].finditer(text)]
    spans = zip([0, *ends], [*ends, len(text)], strict=True)
    parts = [text[start:end] for start, end in spans if start < end]
    return _gathered(list(chain.from_iterable(_cut(part, boundaries[1:], split) for part in parts)), split)


def _gathered(parts: list[str], split: Split) -> list[str]:
    """Neighbours joined until each has its even share of the whole."""
    sizes = [words(part) for part in parts]
    share = sum(sizes) / max(1, round(sum(sizes) / split.words))
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
