"""One agent's sessions, appended a chunk of questions at a time to a journal that outlives a kill.

    OUT/sessions/AGENT.jsonl.partial    whole chunks, each flushed before the next begins; renamed when all is played
    OUT/sessions/AGENT.jsonl            one record a question, in the questions' order
    OUT/costs/AGENT.json                seconds spent; the only files that differ from run to run

A killed process leaves at worst a torn last chunk, which the next one cuts off and plays again in the same company.
The journal is locked while it grows: several processes given the same work each take the agents that no other has.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BufferedRandom
from pathlib import Path

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine.protocol import fingerprint_of
from orienteer.evaluation.errors import EvaluationError
from orienteer.evaluation.files import write_json
from orienteer.query.refinement import clean
from orienteer.session import Environment, Record, RecordError, Seconds, from_line
from orienteer.session.record import Provenance


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


class Writing:
    """A journal that this process alone writes; `done` are the questions in it."""

    def __init__(self, journal: Journal, file: BufferedRandom, agent: str, questions: int, done: int) -> None:
        self._journal, self._file, self._questions, self.done = journal, file, questions, done
        self._costs = Costs.read(journal.costs, agent) if done else Costs(agent)
        self._finish()

    def append(self, lines: bytes, questions: int, seconds: Seconds) -> None:
        """A chunk played; the last one puts the journal in its place."""
        self._file.write(lines)
        self._file.flush()
        os.fsync(self._file.fileno())
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
) -> Iterator[Writing | None]:
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
            yield Writing(journal, file, expected.agent, len(questions), done)


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
                raise EvaluationError(f"{journal.file} has more sessions than there are questions; {MEND}")
            try:
                each = from_line(line)
            except RecordError as error:
                raise EvaluationError(f"{journal.file}, line {count + 1}: {error}; {MEND}") from None
            _check(journal.file, count + 1, each, expected, questions[count])
            yield each
            count += 1
    if count < len(questions):
        raise EvaluationError(f"{journal.file} ends after {count} of {len(questions)} sessions; {MEND}")


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


MEND = "delete it to play it again, or evaluate into another folder"


def _check(file: Path, line: int, found: Record, expected: Provenance, question: Question) -> None:
    """A session of another evaluation must never slip into this one's figures."""
    for what in ("agent", "index", "reader", "settings"):
        was, now = getattr(found.provenance, what), getattr(expected, what)
        if was != now:
            raise EvaluationError(f"{file}, line {line}: played with the {what} {was}, this is {now}; {MEND}")
    asked = (clean(question.id), clean(question.question))
    if (found.question.id, found.question.question) != asked:
        was = found.question.id
        raise EvaluationError(f"{file}, line {line}: the question {was!r}, expected {asked[0]!r} as asked now; {MEND}")
    if not set(found.question.answers) <= {clean(answer) for answer in question.answers}:
        raise EvaluationError(f"{file}, line {line}: the question {asked[0]!r} has other answers now; {MEND}")


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
class Costs:
    """Seconds spent on the questions that were timed: a chunk that a kill cut short is not among them."""

    name: str
    questions: int = 0
    engine: float = 0.0
    reader: float = 0.0
    agent: float = 0.0
    total: float = 0.0

    def plus(self, questions: int, seconds: Seconds) -> Costs:
        return Costs(
            self.name, self.questions + questions, self.engine + seconds.engine, self.reader + seconds.reader,
            self.agent + seconds.agent, self.total + seconds.total,
        )  # fmt: skip

    @property
    def seconds(self) -> float | None:
        """The mean over questions; None where none was timed."""
        return self.total / self.questions if self.questions else None

    @classmethod
    def read(cls, path: Path, name: str) -> Costs:
        """As written; empty where nothing readable is there, since no figure of quality hangs on it."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return cls(name)
