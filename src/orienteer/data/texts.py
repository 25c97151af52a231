"""A folder of documents, and the passages of a document; a text file of questions, one a line."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from orienteer.data.compression import plain_name, unreadable
from orienteer.data.documents import Block, is_document, read_document
from orienteer.data.passage import Passage, Question
from orienteer.data.rows import Fault, Report, check_id, check_whole, decoded, filled_lines
from orienteer.data.split import Piece, Split, split_blocks, words

PLAIN = (".txt",)
INDEX_FILES = {"manifest.json", "write.lock"}
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_NAMING = ("title", "name", "subject", "heading")  # columns that title a row


def folder_files(folder: Path) -> list[Path]:
    """Every file under a folder in the order of their names; hidden ones and those of indexes are left out."""

    def stop(error: OSError) -> None:
        if Path(error.filename or folder) == folder:
            raise unreadable(folder, error)

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=stop):
        if set(files) >= INDEX_FILES:
            folders[:] = []
            continue
        folders[:] = (name for name in folders if not name.startswith("."))
        found += (Path(place, name) for name in files if not name.startswith("."))
    return sorted(found)


def passages(path: Path, name: str, split: Split | None = None) -> Iterator[tuple[int, Passage]]:
    """The passages of a document, with the line each starts at (0 where it has no lines).

    `name` is the file's path in its folder. Raises `Fault` or `DataError` where the document cannot be read, or has
    no text.
    """
    check_whole("file name", check_id(name, "file name"))
    if not path.is_file():
        raise Fault("not a regular file")
    facts = path.stat()
    if facts.st_size == 0:
        raise Fault("the file is empty")
    document = read_document(path)
    title = Path(plain_name(Path(PurePosixPath(name).name))).stem.replace("_", " ")
    own_date = _DATE.match(document.date)
    known: dict[str, Any] = {"file": name}
    if (folder := PurePosixPath(name).parent.as_posix()) != ".":
        known["folder"] = folder
    known["date"] = own_date[0] if own_date else datetime.fromtimestamp(facts.st_mtime, UTC).strftime("%Y-%m-%d")
    if document.language:
        known["language"] = document.language.replace("_", "-").split("-")[0].lower()
    known["hash"] = file_hash(path)
    if document.rows:
        pieces = _row_pieces(document.blocks, title)
    else:
        split_up = split_blocks(document.blocks, title, document.title, document.clean, split)
        pieces = ((piece, dict[str, Any]()) for piece in split_up)
    count = 0
    for count, (piece, fields) in enumerate(pieces, 1):
        place: dict[str, Any] = {"start": piece.start, "end": piece.end}
        if piece.page is not None:
            place["page"] = piece.page
            if piece.last_page != piece.page:
                place["last_page"] = piece.last_page
        if piece.section:
            place["section"] = piece.section
        yield piece.line, Passage(f"{name}#{count}", piece.title, piece.text, fields | known | place)
    if not count:
        scanned = "; a scan needs text recognition first" if name.lower().endswith(".pdf") else ""
        raise Fault(f"no text in it{scanned}")


def file_hash(path: Path) -> str:
    """Names the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _row_pieces(blocks: Iterable[Block], title: str) -> Iterator[tuple[Piece, dict[str, Any]]]:
    for block in blocks:
        fields = dict(block.fields)
        naming = next((str(value) for name, value in fields.items() if name.lower() in _NAMING), "")
        shown = f"{title}: {naming}" if naming and words(naming) <= 20 else title
        yield Piece(block.line, shown, block.text, "", None, None, block.start, block.start + len(block.text)), fields


def questions(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Question]]:
    """A question a line; its id is the line's number."""
    for number, line in filled_lines(blocks):
        try:
            question = decoded(line).strip()
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, Question(str(number), question)


__all__ = ["INDEX_FILES", "PLAIN", "file_hash", "folder_files", "is_document", "passages", "questions"]
