"""DOCX and EPUB: zip archives of XML, read as streams."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote
from xml.etree import ElementTree as xml

from orienteer.data.documents.blocks import Document, placed
from orienteer.data.documents.encodings import decode
from orienteer.data.documents.markup import html_texts
from orienteer.data.rows import Fault

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Office's old container, in which it also keeps encrypted documents
_HEADING = re.compile(r"heading\s*([1-6])", re.I)
_LARGEST_PART = 64 << 20  # bytes of a part that is read whole; the text of a DOCX is not


def docx(path: Path) -> Document:
    with _archive(path, "DOCX") as archive:
        core = _parsed(archive, "docProps/core.xml") if "docProps/core.xml" in archive.namelist() else None
        archive.getinfo("word/document.xml")
    date = _find(core, f"{_TERMS}modified") or _find(core, f"{_TERMS}created")
    return Document(placed(_docx_texts(path)), _find(core, f"{_DC}title"), _find(core, f"{_DC}language"), date)


def epub(path: Path) -> Document:
    with _archive(path, "EPUB") as archive:
        if "META-INF/encryption.xml" in archive.namelist() and re.search(
            rb"\.x?html?[\"']", archive.read("META-INF/encryption.xml")
        ):
            raise Fault("encrypted: the book's text is protected")
        container = _parsed(archive, "META-INF/container.xml")
        package = next((each.get("full-path", "") for each in container.iter() if each.tag.endswith("rootfile")), "")
        book = _parsed(archive, package)
    items = {each.get("id"): each.get("href", "") for each in book.iter() if each.tag.endswith("}item")}
    spine = [items.get(each.get("idref"), "") for each in book.iter() if each.tag.endswith("}itemref")]
    folder = PurePosixPath(package).parent
    chapters = [str(folder / unquote(href)) for href in spine if href]
    return Document(
        placed(_epub_texts(path, chapters)), _find(book, f"{_DC}title"), _find(book, f"{_DC}language"),
        _find(book, f"{_DC}date"),
    )  # fmt: skip


def _epub_texts(path: Path, chapters: list[str]) -> Iterator[tuple[str, int]]:
    with _archive(path, "EPUB") as archive:
        for chapter in chapters:
            yield from html_texts(decode(_part(archive, chapter), declared=True))


def _docx_texts(path: Path) -> Iterator[tuple[str, int]]:
    """Paragraphs with their heading levels; cells of a table's row stand on one line."""
    with _archive(path, "DOCX") as archive:
        levels = _heading_styles(archive)
        names = ["word/document.xml", "word/footnotes.xml", "word/endnotes.xml"]
        for name in (name for name in names if name in archive.namelist()):
            with archive.open(name) as part:
                yield from _paragraphs(part, levels)


def _paragraphs(part: IO[bytes], levels: dict[str, int]) -> Iterator[tuple[str, int]]:
    row: list[str] | None = None
    depth = 0
    for event, each in xml.iterparse(part, ("start", "end")):
        if each.tag == f"{_W}tr":
            depth += 1 if event == "start" else -1
            if event == "start" and depth == 1:
                row = []
            elif event == "end" and depth == 0:
                if row and (text := " | ".join(row)):
                    yield text, 0
                row = None
                each.clear()
        elif each.tag == f"{_W}p" and event == "end":
            style = each.find(f"{_W}pPr/{_W}pStyle")
            level = levels.get(style.get(f"{_W}val", ""), 0) if style is not None else 0
            text = "".join(_runs(each)).strip()
            each.clear()
            if text and row is not None:
                row.append(text)
            elif text:
                yield text, level


def _runs(paragraph: xml.Element) -> Iterator[str]:
    for each in paragraph.iter():
        if each.tag == f"{_W}t":
            yield each.text or ""
        elif each.tag in (f"{_W}tab", f"{_W}br", f"{_W}cr"):
            yield " "
        elif each.tag == f"{_W}noBreakHyphen":
            yield "-"


def _heading_styles(archive: zipfile.ZipFile) -> dict[str, int]:
    """Style id → heading level: ids are in the language of whoever wrote the document, names are not."""
    levels = {f"Heading{n}": n for n in range(1, 7)} | {"Title": 1}
    if "word/styles.xml" in archive.namelist():
        for style in _parsed(archive, "word/styles.xml").iter(f"{_W}style"):
            name = style.find(f"{_W}name")
            value = name.get(f"{_W}val", "") if name is not None else ""
            if found := _HEADING.fullmatch(value):
                levels[style.get(f"{_W}styleId", "")] = int(found[1])
            elif value.lower() == "title":
                levels[style.get(f"{_W}styleId", "")] = 1
    return levels


@contextmanager
def _archive(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    try:
        with path.open("rb") as file:
            if file.read(8) == _OLE:
                raise Fault("encrypted, or in Office's format before 2007; save it without a password as .docx")
            with zipfile.ZipFile(file) as archive:
                yield archive
    except KeyError as error:
        raise Fault(f"no {kind} file: {str(error.args[0])[:100]}") from None
    except RuntimeError as error:  # zipfile's word for an encrypted member
        raise Fault(f"encrypted: {error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, xml.ParseError) as error:
        raise Fault(f"a broken {kind} file: {error}") from None


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST_PART:
        raise Fault(f"{name} in it is larger than {_LARGEST_PART >> 20} MiB")
    return archive.read(name)


def _parsed(archive: zipfile.ZipFile, name: str) -> xml.Element:
    return xml.fromstring(_part(archive, name))


def _find(root: xml.Element | None, tag: str) -> str:
    found = root.find(f".//{tag}") if root is not None else None
    return " ".join((found.text or "").split()) if found is not None else ""
