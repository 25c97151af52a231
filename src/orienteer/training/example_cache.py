"""Training examples as lines of JSON in files, so that what they are made from is needed once.

FOLDER/00000.jsonl.zst …   a batch each, put in its place whole; a killed run goes on after them
FOLDER/done.json           once all are there
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from orienteer.data.atomic import atomic_write
from orienteer.data.compression import read_blocks
from orienteer.data.rows import filled_lines
from orienteer.errors import OrienteerError, TrainingError

DONE = "done.json"

Row = Mapping[str, Any]


def build(
    folder: Path, batches: Callable[[int], Iterable[Iterable[Row]]], show: Callable[[int], None] = lambda done: None
) -> None:
    """Fills a folder; `batches(n)` gives the batches of rows after the first n, and is not called where all is done.

    `show` is told how many there are after each.
    """
    if (folder / DONE).exists():
        return
    number = 0
    while _part(folder, number).exists():
        number += 1
    for batch in batches(number):
        atomic_write(_part(folder, number), map(_line, batch))
        number += 1
        show(number)
    atomic_write(folder / DONE, [_line({"parts": number})])


def read(folder: Path) -> Iterator[Row]:
    """The rows of a finished folder, in order."""
    try:
        parts = int(json.loads((folder / DONE).read_bytes())["parts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder} holds no finished examples ({error}); delete it to make them again") from None
    for number in range(parts):
        path = _part(folder, number)
        try:
            with closing(read_blocks(path)) as blocks:
                for _, line in filled_lines(blocks):
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("a line that is no object")
                    yield row
        except (OSError, ValueError, OrienteerError) as error:
            raise TrainingError(f"{path}: damaged examples ({error}); delete {folder} to make them again") from None


def key(file: Path, *parameters: object) -> str:
    """A name for the folder of a file's examples, from all that decides what is in it."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    text = json.dumps([digest, *parameters])
    return f"{file.name.split('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def digest_of(question_id: str) -> int:
    """A number for a question, to hold some questions out."""
    return int.from_bytes(hashlib.sha256(question_id.encode("utf-8", "replace")).digest()[:4], "little")


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.jsonl.zst"


def _line(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
