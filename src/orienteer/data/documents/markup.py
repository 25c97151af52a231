"""HTML: the text that is there to be read, as headings and paragraphs; menus, scripts and footers are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser

from orienteer.data.documents.blocks import Block, Document, placed
from orienteer.data.documents.encodings import decode_blocks

_SKIPPED = frozenset(
    "nav aside footer form button select option script style noscript template svg canvas iframe object dialog menu "
    "audio video map textarea".split()
)
_CONTAINERS = _SKIPPED | frozenset(
    "main article section div header ul ol dl table figure blockquote details fieldset head body center".split()
)
_BLOCKS = _CONTAINERS | frozenset(
    "p h1 h2 h3 h4 h5 h6 li dt dd tr td th pre br hr caption figcaption summary address legend title html".split()
)
_VOID = frozenset("br hr img input meta link area base col embed source track wbr".split())
_ROLES = frozenset("navigation banner contentinfo search menu menubar complementary toolbar dialog alert".split())
_MENU = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|footer|breadcrumbs?|cookies?|toc|toctree|pagination|pager|"
    r"social|share|related|advert|ads|banner|skip(?:-?link)?|headerlink|sphinxsidebar|hidden)(?:$|[\s_-])",
    re.I,
)
_DATE = frozenset("date dc.date dcterms.date dcterms.created article:published_time datepublished".split())
_ENOUGH = 40  # words of <main> or <article> for everything else to be left out
_WAITING = 1 << 24  # characters of a page that wait for its <main>


def html(blocks: Iterable[bytes]) -> Document:
    page = _Page()
    texts = page.read(decode_blocks(blocks, declared=True))
    first = list(_some(texts))
    return Document(_all_placed(first, texts), page.title, page.language, page.date)


def html_texts(text: str) -> Iterator[tuple[str, int]]:
    """The texts of a page with their heading levels (0: a paragraph)."""
    return _Page().read([text])


def _some(texts: Iterator[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for text in texts:  # The head of the page is read by the time its first text is known.
        yield text
        return


def _all_placed(first: list[tuple[str, int]], rest: Iterator[tuple[str, int]]) -> Iterator[Block]:
    def all_texts() -> Iterator[tuple[str, int]]:
        yield from first
        yield from rest

    return placed(all_texts())


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = self.language = self.date = ""
        self.texts: list[tuple[str, int, bool]] = []  # text, level, whether in <main> or <article>
        self._open: list[tuple[str, bool, bool]] = []  # container, skipped, main
        self._parts: list[str] = []
        self._linked = 0
        self._in_link = self._pre = self._in_title = False
        self._level = 0
        self._item = False

    def read(self, pieces: Iterable[str]) -> Iterator[tuple[str, int]]:
        waiting = True  # until it is clear whether the page says which part is its main one
        for piece in pieces:
            for start in range(0, len(piece), 1 << 16):
                self.feed(piece[start : start + (1 << 16)])
            if waiting and sum(len(text) for text, _, _ in self.texts) > _WAITING:
                waiting = False
            if not waiting:
                yield from ((text, level) for text, level, _ in self.texts)
                self.texts = []
        self.close()
        self._end_block()
        main = [(text, level) for text, level, inside in self.texts if inside]
        if waiting and sum(len(text.split()) for text, _ in main) >= _ENOUGH:
            yield from main
        else:
            yield from ((text, level) for text, level, _ in self.texts)
        self.texts = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "html":
            self.language = values.get("lang", "") or values.get("xml:lang", "")
        elif tag == "meta":
            self._meta(values)
        if tag in _BLOCKS:
            self._end_block()
        if tag in _VOID:
            return
        if tag == "a":
            self._in_link = True
        elif tag == "pre":
            self._pre = True
        elif tag == "title" and not self.title:
            self._in_title = True
        elif tag == "li":
            self._item = True
        elif len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self._level = int(tag[1])
        if tag in _CONTAINERS:
            skipped, main = self._state()
            main = main or tag in ("main", "article") or values.get("role") in ("main", "article")
            names = f"{values.get('class', '')} {values.get('id', '')}"
            unwanted = (
                tag in _SKIPPED
                or (tag == "header" and not main)
                or values.get("role", "").lower() in _ROLES
                or values.get("aria-hidden") == "true"
                or "hidden" in values
                or (tag not in ("body", "main", "article") and bool(_MENU.search(names)))
            )
            self._open.append((tag, skipped or unwanted, main))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._end_block()
        if tag == "a":
            self._in_link = False
        elif tag == "pre":
            self._pre = False
        elif tag == "title":
            self._in_title = False
        elif tag == "li":
            self._item = False
        elif len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self._level = 0
        if tag in _CONTAINERS:
            for place in range(len(self._open) - 1, -1, -1):
                if self._open[place][0] == tag:
                    del self._open[place:]
                    break

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join(f"{self.title} {data}".split())
        elif not self._state()[0] and not (self._open and self._open[-1][0] == "head"):
            self._parts.append(data)
            if self._in_link:
                self._linked += len(data.strip())

    def _state(self) -> tuple[bool, bool]:
        return self._open[-1][1:] if self._open else (False, False)

    def _meta(self, values: dict[str, str]) -> None:
        name = (values.get("name") or values.get("property") or values.get("itemprop") or "").lower()
        if name in _DATE and not self.date:
            self.date = values.get("content", "")
        elif values.get("http-equiv", "").lower() == "content-language" and not self.language:
            self.language = values.get("content", "")

    def _end_block(self) -> None:
        raw = "".join(self._parts)
        text = raw.strip("\n").rstrip() if self._pre else " ".join(raw.split())
        main = self._state()[1]
        # A short item that is nothing but a link is a menu's, unless the page says that this is its main part.
        menu = self._item and not main and self._linked >= 0.9 * len(text) and len(text.split()) <= 6
        if text.strip() and not menu:
            self.texts.append((text, self._level, main))
        self._parts, self._linked = [], 0
