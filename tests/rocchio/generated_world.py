"""Sessions of the bundled corpus into a file, as several processes need it to be described.

As a program: generates into a file, with so many workers, and is killed by whoever started it, or by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hash_reader import HashReader

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data import Passage, Question
from orienteer.engine import Engine
from orienteer.reader.protocol import Reader, Reading
from orienteer.rocchio import RocchioConfig, generate, variants_of
from orienteer.rocchio.generation import GenerationCosts
from orienteer.session import Settings

CONFIG = RocchioConfig(n=12, m=6, settings=Settings(steps=4), others=4)
GRAMMARS = variants_of("G0,G4")
HARD = [
    Question("no-answer", "who painted it"),
    Question("nowhere", "which river floods egypt", ("Napoleon Bonaparte",)),
    Question("stop-words", "which river floods egypt", ("it",)),
    Question("no-hits", "zyxwv", ("Lokoja",)),
]
ASKED = [*bundled_questions("train")[:22], *HARD]


class DoomedReader(HashReader):
    """Kills its process 2 ms after so many batches."""

    def __init__(self, questions: Sequence[Question], batches: int) -> None:
        super().__init__(questions)
        self._left = batches

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self._left -= 1
        if self._left == 0:
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self._left < 0:
            time.sleep(60)  # on a busy machine the timer may be late: the process must not finish before it
        return super().read_many(batch)


@dataclass(frozen=True)
class Bundled:
    """The bundled corpus and a stand-in reader; `doom` > 0: whoever opens it dies after so many batches.

    With `once`, only the first to make that file, and never the process `parent`.
    """

    doom: int = 0
    once: Path | None = None
    parent: int = 0

    def open(self) -> tuple[Engine, Reader]:
        reader = HashReader(ASKED)
        if self.doom and os.getpid() != self.parent and (self.once is None or _first(self.once)):
            reader = DoomedReader(ASKED, self.doom)
        return bundled_engine(), reader


def _first(path: Path) -> bool:
    """Whether this process is the one that makes the file."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def run(
    out: Path, backend: Bundled | None = None, *, workers: int = 1, chunk: int = 3, ray: str | None = None
) -> GenerationCosts:
    return generate(backend or Bundled(), ASKED, GRAMMARS, out, CONFIG, workers=workers, chunk=chunk, ray=ray)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Bundled(int(sys.argv[3])), workers=int(sys.argv[2]))
