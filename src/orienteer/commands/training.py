"""What commands that train have in common: a world to search and read in, opened late, and questions from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orienteer.commands.terminal import err, plain
from orienteer.errors import OrienteerError

if TYPE_CHECKING:
    from orienteer.data import Question
    from orienteer.engine.protocol import Engine
    from orienteer.reader.protocol import Reader


class World:
    """The index and the reader, opened when they are first needed."""

    def __init__(self, index: Path, reader: Path | None, cache: Path | None, threads: int) -> None:
        self._index, self._reader, self._cache, self.threads = index, reader, cache, threads
        self._opened: tuple[Engine, Reader] | None = None

    def open(self) -> tuple[Engine, Reader]:
        from orienteer.engine.open import open_engine
        from orienteer.reader import CachedReader, TrainedReader

        if self._opened is None:
            trained = TrainedReader.from_pretrained(self._reader, threads=self.threads)
            self._opened = open_engine(self._index, threads=self.threads), CachedReader(trained, disk=self._cache)
        return self._opened


def encoded(what: str, done: int, unit: str) -> None:
    """A line now and then, as training has one."""
    err.print(f"[dim]{plain(what)}: {done:,} {unit} encoded[/]")


def sessions_encoded(file: str, batches: int) -> None:
    from orienteer.agents.imitation import SESSIONS_PER_BATCH

    encoded(file, batches * SESSIONS_PER_BATCH, "sessions")


def questions_of(paths: Sequence[Path]) -> list[Question]:
    from orienteer.data import read_questions

    listed = list(read_questions(paths))
    if not listed:
        raise OrienteerError(f"{paths[0] if paths else 'no file'}: no questions in it")
    return listed


def spread(questions: Sequence[Question], count: int) -> Sequence[Question]:
    """At most `count` of the questions, at equal distances: a file may be sorted by source."""
    return questions[:: max(1, -(-len(questions) // count))]
