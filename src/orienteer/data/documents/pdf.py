"""PDF by PDFium, page by page: running heads go, a sentence that goes on over a page's end stays whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

from orienteer.data.documents.blocks import Block, Document
from orienteer.data.documents.plain import joined_hyphens
from orienteer.data.rows import Fault

_LEARNED = 16  # pages from which running heads are learned
_PDFIUM = Lock()  # PDFium is for one thread at a time
_PASSWORD, _SECURITY = 4, 5
_SENTENCE_END = re.compile(r"""[.!?…]["'”’»)\]]*(?=\s)|[。！？]""")
_NUMBER = re.compile(r"\d+")


def pdf(path: Path) -> Document:
    import pypdfium2

    with _PDFIUM:
        try:
            opened = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            if getattr(error, "err_code", None) in (_PASSWORD, _SECURITY) or "assword" in str(error):
                raise Fault("encrypted: it needs a password") from None
            raise Fault("a broken PDF file") from None
        facts = opened.get_metadata_dict()
        sections = _outline(opened)
    found = re.match(r"D:(\d{4})(\d\d)?(\d\d)?", facts.get("ModDate") or facts.get("CreationDate") or "")
    date = "-".join(part for part in found.groups() if part) if found else ""
    return Document(_blocks(_pages(opened), sections), facts.get("Title", "").strip(), date=date, clean=_flowing)


def _outline(opened: Any) -> dict[int, list[tuple[int, str]]]:
    """Page → (level, title) of the bookmarks that point to it; an outline that cannot be read is none."""
    sections: dict[int, list[tuple[int, str]]] = {}
    try:
        for mark in opened.get_toc(max_depth=6):
            target = mark.get_dest()
            index = target.get_index() if target is not None else None
            if index is not None and (title := " ".join(mark.get_title().split())):
                sections.setdefault(index, []).append((mark.level + 1, title))
    except Exception:
        return {}
    return sections


def _pages(opened: Any) -> Iterator[list[str]]:
    """The lines of each page; a page that PDFium cannot read is empty."""
    import pypdfium2

    try:
        for number in range(len(opened)):
            with _PDFIUM:
                try:
                    page = opened[number]
                    text = page.get_textpage()
                    found = text.get_text_bounded()
                    text.close()
                    page.close()
                except pypdfium2.PdfiumError:
                    found = ""
            # U+FFFE and U+0002 are PDFium's hyphens at the end of a line.
            found = found.replace("\ufffe", "-\n").replace("\x02", "-\n").replace("\0", "")
            yield found.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    finally:
        with _PDFIUM:
            opened.close()


def _blocks(pages: Iterator[list[str]], sections: dict[int, list[tuple[int, str]]]) -> Iterator[Block]:
    first = list(islice(pages, _LEARNED))
    running = _running_lines(first)
    open_text, open_start, open_page, at = "", 0, 0, 0
    for number, lines in enumerate(chain(first, pages)):
        kept = [line for place, line in enumerate(lines) if not running & _at_edge(lines, place)]
        text = "\n".join(kept).strip()
        headings = sections.get(number, [])
        if open_text:
            # The sentence that the page before began; a heading here ends it.
            found = None if headings else _SENTENCE_END.search(text[:1000])
            if found and text[: found.start()].strip():
                yield Block(f"{open_text}\n{text[: found.end()]}", open_start, page=open_page, last_page=number + 1)
                at, text = at + found.end(), text[found.end() :]
            else:
                yield Block(open_text, open_start, page=open_page)
            open_text = ""
        for level, title in headings:
            yield Block(title, at, level, page=number + 1)
        ends = [match.end() for match in _SENTENCE_END.finditer(text + " ")]
        cut = ends[-1] if ends else 0
        if cut > 0 and 0 < len(text) - cut < 1000:
            yield Block(text[:cut], at, page=number + 1)
            open_text, open_start, open_page = text[cut:], at + cut, number + 1
        elif text:
            yield Block(text, at, page=number + 1)
        at += len(text) + 1
    if open_text:
        yield Block(open_text, open_start, page=open_page)


def _running_lines(pages: list[list[str]]) -> set[tuple[int, str]]:
    """Lines that stand first or last on most pages, whatever their numbers; second or last but one where all is equal.

    Some programs write the head of a page after its text.
    """
    if len(pages) < 4:
        return set()
    seen = Counter(each for lines in pages for place in range(len(lines)) for each in _at_edge(lines, place))
    return {line for line, count in seen.items() if count >= 0.6 * len(pages)}


def _at_edge(lines: list[str], place: int) -> set[tuple[int, str]]:
    """The line with its place from the top and from the bottom, where it is one of the two first or last."""
    line = lines[place].strip()
    if len(lines) < 2 or not line:
        return set()
    shape = _NUMBER.sub("0", line)
    shapes = {0: shape, 1: line, -1: shape, -2: line}
    return {(each, shapes[each]) for each in (place, place - len(lines)) if each in shapes}


def _flowing(text: str) -> str:
    """Lines of a page end where the page does, not where the text does."""
    return " ".join(joined_hyphens(text).split())
