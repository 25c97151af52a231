"""Forty questions, agents with good and bad luck, and what an evaluation of them leaves on the disk.

As a program: evaluates into a folder and is killed, without warning, after so many batches of the reader.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Wanderer

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import Evaluation, evaluate
from orienteer.reader.protocol import Reading
from orienteer.session import Settings

FORTY = [Question(f"{q.id}-{n}", q.question, q.answers) for n in range(3) for q in (*QUESTIONS, *HARD_QUESTIONS)][:40]
SETTINGS = Settings(steps=4)
WANDERER = ConfiguredAgent("wanderer", Wanderer(), Settings(steps=4, allow_stop=True))
AGENTS: tuple[str | ConfiguredAgent, ...] = ("bm25", "bm25+ps", "prf-idf-t", WANDERER)


def run(engine: ReferenceEngine, out: Path, **options: Any) -> Evaluation:
    """The evaluation of every test, where it does not say otherwise."""
    defaults: dict[str, Any] = {
        "reader": LexicalReader(), "questions": FORTY, "agents": AGENTS, "settings": SETTINGS,
        "chunk": 8, "figures": False, "data": "dev",
    }  # fmt: skip
    return evaluate(engine, out=out, **{**defaults, **options})


def tree(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes, but for seconds."""
    files = {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
    return {name: without_seconds(name, data) for name, data in files.items() if not name.startswith("costs/")}


_SECONDS_AT_THE_END = re.compile(rb"\| (?:\d+\.\d\d|\xe2\x80\x93) \|$", re.MULTILINE)


def without_seconds(name: str, data: bytes) -> bytes:
    if name == "metrics.json":
        rows = json.loads(data)
        for row in rows.values():
            row.pop("seconds", None)
        return json.dumps(rows).encode()
    if name.startswith("summaries/"):
        try:
            row = json.loads(data)
            row.pop("seconds", None)
            return json.dumps(row).encode()
        except (ValueError, AttributeError):
            return data
    if name == "report.md":
        head, table, rest = data.partition(b"| passages_scored | seconds |")
        rows, about, more = rest.partition(b"- **")
        return head + table + _SECONDS_AT_THE_END.sub(b"|", rows) + about + more
    return data


class DoomedReader(LexicalReader):
    """Kills its process 1 ms after its n-th batch, whatever the evaluation does by then."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self._left -= 1
        if self._left == 0:
            threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self._left < 0:
            time.sleep(60)  # on a busy machine the timer may be late: the process must not finish before it
        return super().read_many(batch)


class SlowReader(LexicalReader):
    def __init__(self, pause: float) -> None:
        super().__init__()
        self._pause = pause

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        time.sleep(self._pause)
        return super().read_many(batch)


@dataclass(frozen=True)
class SmallWorld:
    """What a worker opens; with `doom`, the first worker to make that file dies after a few batches."""

    doom: Path | None = None
    reader: str = "lexical stand-in"
    pause: float = 0.0  # seconds that each batch takes

    def open(self) -> tuple[ReferenceEngine, LexicalReader]:
        reader: LexicalReader = SlowReader(self.pause) if self.pause else LexicalReader(self.reader)
        if self.doom is not None:
            try:
                self.doom.touch(exist_ok=False)
                reader = DoomedReader(3)
            except FileExistsError:
                pass
        return ReferenceEngine(PASSAGES), reader


def main(out: Path, batches: int) -> None:
    run(ReferenceEngine(PASSAGES), out, reader=DoomedReader(batches))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
