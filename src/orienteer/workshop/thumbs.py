"""Thumbs up and down, kept in a local file: a line a thumb, the last one of a question and passage counts.

    {"index": "9f…", "question": "who isolated sodium", "passage": "nq-17", "thumb": 1}

Nothing leaves the machine. A thumb of 0 takes an earlier one back. As judgements, up is relevant and down is not.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from orienteer.data.passage import Question
from orienteer.errors import OrienteerError
from orienteer.query.refinement import clean

MOST = 100_000  # lines; a person does not make more


class ThumbsError(OrienteerError):
    """A file of thumbs that cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Thumb:
    """`index` is the fingerprint of the index; `thumb` is 1, -1, or 0 where one was taken back."""

    index: str
    question: str
    passage: str
    thumb: int


class ThumbStore:
    """The thumbs in one file; several processes may add to it."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = Path(file)

    def add(self, thumb: Thumb) -> None:
        if thumb.thumb not in (-1, 0, 1):
            raise ThumbsError(f"a thumb of {thumb.thumb}; expected 1 (up), -1 (down) or 0 (taken back)")
        line = json.dumps(asdict(thumb), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(line)
        except OSError as error:
            raise ThumbsError(f"{self.file}: cannot be written: {error.strerror}") from None

    def thumbs(self, *indexes: str) -> list[Thumb]:
        """What counts, in the order in which questions and passages were first met.

        Several indexes are one that has changed: the last thumb on any of them counts. None: all, each on its own.
        """
        last: dict[tuple[str, str, str], Thumb] = {}
        for thumb in self._lines():
            if not indexes or thumb.index in indexes:
                last["" if indexes else thumb.index, thumb.question, thumb.passage] = thumb
        return [thumb for thumb in last.values() if thumb.thumb]

    def questions(self, *indexes: str) -> list[Question]:
        """Questions with their thumbs as judgements; the id is the question itself."""
        grades: dict[str, dict[str, int]] = {}
        for thumb in self.thumbs(*indexes):
            grades.setdefault(thumb.question, {})[thumb.passage] = int(thumb.thumb > 0)
        return [Question(clean(text), text, judgements=tuple(own.items())) for text, own in grades.items()]

    def _lines(self) -> Iterator[Thumb]:
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ThumbsError(f"{self.file}: cannot be read: {error.strerror}") from None
        for number, line in enumerate(data.splitlines()[-MOST:], 1):
            try:
                row = json.loads(line)
                yield Thumb(str(row["index"]), str(row["question"]), str(row["passage"]), int(row["thumb"]))
            except (ValueError, KeyError, TypeError):
                raise ThumbsError(f"{self.file}, line {number}: not a thumb; delete the line") from None


def qrels_lines(questions: list[Question]) -> str:
    """Thumbs as TREC's qrels, a question by its number, for every evaluation program."""
    rows = [(n, id, grade) for n, question in enumerate(questions, 1) for id, grade in question.judgements]
    return "".join(f"{n} 0 {id} {grade}\n" for n, id, grade in rows)
