"""What a Rocchio search costs: passages read beside reading everything, time beside the naive way; same run.

The naive way asks one query a candidate and reads every hit again. All three find the same sessions, which is checked.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from orienteer.data import Passage, Question, read_questions
from orienteer.engine import EmbeddedEngine, open_index
from orienteer.errors import OrienteerError
from orienteer.reader import CachedReader, Reader, Reading, TrainedReader
from orienteer.rocchio import RocchioConfig, RocchioSession, Variant, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import SEARCHED

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rocchio"))

from naive import naive_session

err = Console(stderr=True, highlight=False)


class Counting:
    """A reader that counts what it is asked to read."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self.fingerprint = reader, reader.fingerprint
        self.passages = 0

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self.passages += sum(len(passages) for _, passages in batch)
        return self._reader.read_many(batch)


def run(index: Path, questions: Path, reader: Path | None, limit: int, naive: int, grammar: str, as_json: bool) -> None:
    report = measure(
        open_index(index, threads=1), TrainedReader.from_pretrained(reader, threads=1),
        list(islice(read_questions(questions), limit)), variants_of(grammar)[0], naive,
    )  # fmt: skip
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
        return
    table = Table("measure", "value", box=None, title="cost of Rocchio sessions, one thread")
    for name, value in report.items():
        table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)


def measure(
    engine: EmbeddedEngine, reader: Reader, questions: list[Question], variant: Variant, naive: int
) -> dict[str, float]:
    """Counts and seconds of CPU time; every way begins with a cold cache."""
    _search(engine, reader, questions[:1], variant, RocchioConfig(), [])  # kernels are compiled, the index is in memory
    counts: list[int] = []
    pruned, pruned_seconds = _search(engine, reader, questions, variant, RocchioConfig(), counts)
    err.print(f"pruned: {counts[-1]:,} passages, {pruned_seconds:.0f} s")
    every, every_seconds = _search(engine, reader, questions, variant, RocchioConfig(exhaustive=True), counts)
    err.print(f"exhaustive: {counts[-1]:,} passages, {every_seconds:.0f} s")
    same = sum(_course(a) == _course(b) for a, b in zip(pruned, every, strict=True))
    report: dict[str, float] = {
        "questions": len(questions),
        "searched": sum(session.ended in SEARCHED for session in pruned),
        "steps": sum(len(session.steps) for session in pruned),
        "identical sessions": same,
        "passages read": counts[0],
        "passages read, exhaustive": counts[1],
        "read : exhaustive": counts[0] / counts[1],
        "seconds": pruned_seconds,
        "seconds, exhaustive": every_seconds,
    }
    chosen = [question for question, session in zip(questions, pruned, strict=True) if session.ended in SEARCHED]
    if naive:
        report |= _beside_naive(engine, reader, chosen[:naive], variant)
    if same < len(questions):
        raise OrienteerError(f"pruned and exhaustive agree on {same} of {len(questions)} sessions: {report}")
    return report


def _search(
    engine: EmbeddedEngine,
    reader: Reader,
    questions: list[Question],
    variant: Variant,
    plan: RocchioConfig,
    counts: list[int],
) -> tuple[list[RocchioSession], float]:
    counting = Counting(reader)
    started = time.process_time()
    sessions = [session for [session] in rocchio_sessions(engine, CachedReader(counting), questions, [variant], plan)]
    counts.append(counting.passages)
    return sessions, time.process_time() - started


def _beside_naive(
    engine: EmbeddedEngine, reader: Reader, questions: list[Question], variant: Variant
) -> dict[str, float]:
    counts: list[int] = []
    fast, seconds = _search(engine, reader, questions, variant, RocchioConfig(), counts)
    counting = Counting(reader)
    started = time.process_time()
    for number, (question, session) in enumerate(zip(questions, fast, strict=True), 1):
        slow = naive_session(engine, counting, question, variant, RocchioConfig())
        if [refinement for refinement, _ in slow] != [step.refinement for step in session.steps]:
            raise OrienteerError(f"the naive search of {question.id!r} finds another session")
        err.print(f"naive: {number} of {len(questions)}, {time.process_time() - started:.0f} s")
    naive_seconds = time.process_time() - started
    return {
        "naive: questions": len(questions),
        "naive: passages read": counting.passages,
        "naive: seconds": naive_seconds,
        "naive: seconds, ours": seconds,
        "naive: ours : naive": seconds / naive_seconds,
    }


def _course(session: RocchioSession) -> RocchioSession:
    """The session without what depends on how much was read."""
    return replace(session, read=0, steps=tuple(replace(step, read=0, others=()) for step in session.steps))
