"""A folder of `.txt` and `.md` files, cut into passages; a text file of questions, one a line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from orienteer.data.compression import plain_name, unreadable
from orienteer.data.passage import Passage, Question
from orienteer.data.rows import Fault, Report, check_id, check_whole, decoded, filled_lines, numbered_lines
from orienteer.data.split import split_text

PLAIN = (".txt",)
MARKDOWN = (".md", ".markdown")


def text_files(folder: Path) -> list[Path]:
    """Every text file under a folder in the order of their names; hidden files and folders are left out."""

    def stop(error: OSError) -> None:
        raise unreadable(Path(error.filename or folder), error)

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=stop):
        folders[:] = (name for name in folders if not name.startswith("."))
        found += (Path(place, name) for name in files if not name.startswith("."))
    return sorted(path for path in found if plain_name(path).lower().endswith(PLAIN + MARKDOWN))


def passages(blocks: Iterable[bytes], bad: Report, name: str) -> Iterator[tuple[int, Passage]]:
    """The passages of a text, with the line each starts at; `name` is the file's path in its folder."""
    file = plain_name(Path(PurePosixPath(name).name))
    title = Path(file).stem.replace("_", " ")
    try:
        check_whole("file name", check_id(name, "file name"))
        pieces = split_text(_lines(blocks, bad), title, file.lower().endswith(MARKDOWN))
        for count, piece in enumerate(pieces, 1):
            yield piece.line, Passage(f"{name}#{count}", piece.title, piece.text)
    except Fault as fault:
        bad(1, fault)


def questions(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Question]]:
    """A question a line; its id is the line's number."""
    for number, line in filled_lines(blocks):
        try:
            question = decoded(line).strip()
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, Question(str(number), question)


def _lines(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(blocks):
        try:
            text = decoded(line).rstrip("\r")
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, text
