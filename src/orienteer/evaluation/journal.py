"""Files of an evaluation: names of agents as file names, and the journal of each agent's sessions.

    OUT/sessions/AGENT.jsonl.partial    complete chunks, each flushed before the next begins; renamed at the end
    OUT/sessions/AGENT.jsonl            one record a question, in the questions' order
    OUT/costs/AGENT.json                seconds spent, which differ from run to run

A killed process leaves at worst a torn last chunk, which the next one cuts off and plays again. A journal is locked
while it grows: several processes given the same work each take the agents that no other has.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

from orienteer.agents import ConfiguredAgent
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.query.refinement import clean
from orienteer.session import Environment, Record, RecordError, Seconds, from_line
from orienteer.session.record import Provenance


class EvaluationError(OrienteerError):
    """An evaluation that cannot be run as asked, or a folder that holds another one."""


_UNSAFE = re.compile(r"[^\w+@^.=-]", re.ASCII)


def file_names(agents: Iterable[str]) -> dict[str, str]:
    """Each agent's name as that of a file: `ensemble(a|b)` is `ensemble_a_b_`, a second one of a name gets a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for agent in agents:
        base = _UNSAFE.sub("_", agent).lstrip(".")[:150] or "_"
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name.lower())
        names[agent] = name
    return names


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    atomic_write(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@dataclass(frozen=True, slots=True)
class Journal:
    """Where an agent's sessions are kept."""

    out: Path
    name: str

    @property
    def file(self) -> Path:
        return self.out / "sessions" / f"{self.name}.jsonl"

    @property
    def partial(self) -> Path:
        return self.file.with_name(f"{self.name}.jsonl.partial")

    @property
    def costs(self) -> Path:
        return self.out / "costs" / f"{self.name}.json"

    @property
    def begun(self) -> bool:
        return self.file.exists() or self.partial.exists()


class JournalWriter:
    """A journal that this process alone writes; `done` are the questions in it."""

    def __init__(self, journal: Journal, file: BufferedRandom, agent: str, questions: int, done: int) -> None:
        self._journal, self._file, self._questions, self.done = journal, file, questions, done
        self._costs = SessionCosts.read(journal.costs, agent) if done else SessionCosts(agent)
        self._finish()

    def append(self, lines: bytes, questions: int, seconds: Seconds | None) -> None:
        """A chunk played; the last one puts the journal in its place. Without `seconds` it is not timed."""
        self._file.write(lines)
        self._file.flush()
        os.fsync(self._file.fileno())
        if seconds is not None:
            self._costs = self._costs.plus(questions, seconds)
            write_json(self._journal.costs, asdict(self._costs))
        self.done += questions
        self._finish()

    def _finish(self) -> None:
        if self.done == self._questions:
            self._journal.partial.replace(self._journal.file)


@contextmanager
def write_journal(
    journal: Journal, expected: Provenance, questions: Sequence[Question], chunk: int
) -> Iterator[JournalWriter | None]:
    """The journal, to be gone on with where it ends; None where it is finished or another process is writing it."""
    if journal.file.exists():
        yield None
        return
    journal.file.parent.mkdir(parents=True, exist_ok=True)
    with _locked(journal.partial) as file:
        if file is None:
            yield None
        elif journal.file.exists():  # another process may have finished it while this one came to the lock
            journal.partial.unlink(missing_ok=True)
            yield None
        else:
            done = _cut_to_whole_chunks(journal, file, expected, questions, chunk)
            yield JournalWriter(journal, file, expected.agent, len(questions), done)


def provenance(entry: ConfiguredAgent, environment: Environment) -> Provenance:
    return Provenance(
        entry.name, fingerprint_of(environment.engine), fingerprint_of(environment.reader), entry.settings
    )


def read_journal(journal: Journal, expected: Provenance, questions: Sequence[Question]) -> Iterator[Record]:
    """The finished records, one a question, each checked to be of this evaluation."""
    count = 0
    with journal.file.open("rb") as file:
        for line in file:
            if count == len(questions):
                raise EvaluationError(f"{journal.file} has more sessions than there are questions; {HOW_TO_FIX}")
            try:
                each = from_line(line)
            except RecordError as error:
                raise EvaluationError(f"{journal.file}, line {count + 1}: {error}; {HOW_TO_FIX}") from None
            _check(journal.file, count + 1, each, expected, questions[count])
            yield each
            count += 1
    if count < len(questions):
        raise EvaluationError(f"{journal.file} ends after {count} of {len(questions)} sessions; {HOW_TO_FIX}")


def _cut_to_whole_chunks(
    journal: Journal, file: BufferedRandom, expected: Provenance, questions: Sequence[Question], chunk: int
) -> int:
    """How many questions are done; what comes after the last whole chunk, or after a damaged line, is cut off."""
    ends = [0]
    file.seek(0)
    for line in file:
        if len(ends) > len(questions) or not line.endswith(b"\n"):
            break
        try:
            each = from_line(line)
        except RecordError:
            break
        _check(journal.partial, len(ends), each, expected, questions[len(ends) - 1])
        ends.append(ends[-1] + len(line))
    done = len(ends) - 1
    done = done if done == len(questions) else done // chunk * chunk
    file.truncate(ends[done])
    file.seek(ends[done])
    return done


HOW_TO_FIX = "delete it to play it again, or evaluate into another folder"


def _check(file: Path, line: int, found: Record, expected: Provenance, question: Question) -> None:
    """A session of another evaluation must never slip into this one's figures."""
    for what in ("agent", "index", "reader", "settings"):
        was, now = getattr(found.provenance, what), getattr(expected, what)
        if was != now:
            raise EvaluationError(f"{file}, line {line}: played with the {what} {was}, this is {now}; {HOW_TO_FIX}")
    asked = (clean(question.id), clean(question.question))
    if (found.question.id, found.question.question) != asked:
        was = found.question.id
        raise EvaluationError(
            f"{file}, line {line}: the question {was!r}, expected {asked[0]!r} as asked now; {HOW_TO_FIX}"
        )
    if dict(found.question.judgements) != dict(question.judgements):
        raise EvaluationError(f"{file}, line {line}: the question {asked[0]!r} has other judgements now; {HOW_TO_FIX}")
    if not set(found.question.answers) <= {clean(answer) for answer in question.answers}:
        raise EvaluationError(f"{file}, line {line}: the question {asked[0]!r} has other answers now; {HOW_TO_FIX}")


@contextmanager
def _locked(path: Path) -> Iterator[BufferedRandom | None]:
    """The file, open to read and write and locked; None where another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        yield file


@dataclass(frozen=True, slots=True)
class SessionCosts:
    """Seconds spent on the questions that were timed: a chunk that a kill cut short is not among them."""

    name: str
    questions: int = 0
    engine: float = 0.0
    reader: float = 0.0
    agent: float = 0.0
    total: float = 0.0

    def plus(self, questions: int, seconds: Seconds) -> SessionCosts:
        return SessionCosts(
            self.name, self.questions + questions, self.engine + seconds.engine, self.reader + seconds.reader,
            self.agent + seconds.agent, self.total + seconds.total,
        )  # fmt: skip

    @property
    def seconds(self) -> float | None:
        """The mean over questions; None where none was timed."""
        return self.total / self.questions if self.questions else None

    @property
    def without_reading(self) -> float | None:
        """The same without the reader's seconds."""
        return (self.total - self.reader) / self.questions if self.questions else None

    @classmethod
    def read(cls, path: Path, name: str) -> SessionCosts:
        """As written; empty where nothing readable is there, since no figure of quality hangs on it."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return cls(name)
