"""Sessions for a file of questions: in chunks, on many workers, taken up again after any kill.

    OUT                      the sessions, whole, once all are found
    OUT.costs.json           what they cost; the only file that differs from run to run
    OUT.parts/plan.json      the parameters, so that another run cannot continue it
    OUT.parts/00000.jsonl …  finished chunks, each written atomically
    OUT.parts/costs.jsonl    a line for each finished chunk
    OUT.parts/readings.db    passages read so far, so that a chunk that is begun again costs little

A chunk that a kill cut short is not there and is searched again. The chunks are joined in their order: the bytes of
OUT depend on questions, grammars and settings, not on workers, kills or the size of a chunk.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, zip_longest
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol

from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.query.refinement import clean
from orienteer.reader.cache import CachedReader
from orienteer.reader.protocol import Reader
from orienteer.rocchio.config import RocchioConfig, RocchioError, Variant
from orienteer.rocchio.sessions import Header, header_line, read_session, session_line
from orienteer.workers import run_chunks

TYPES = ("who", "what", "when", "where", "which", "how", "why")


def question_type(text: str) -> str:
    """The question word that comes first in the text; "other" where there is none."""
    words = (word.strip("\"'‘“(").removesuffix("'s").removesuffix("’s") for word in text.lower().split())
    known = {**{word: word for word in TYPES}, "whom": "who", "whose": "who"}
    return next((known[word] for word in words if word in known), "other")


def of_sources(questions: Iterable[Question], sources: Sequence[str]) -> list[Question]:
    """The questions whose source is one of these, the sources in the order given; all of them where none is."""
    by_source: dict[str, list[Question]] = {}
    for question in questions:
        by_source.setdefault(question.source, []).append(question)
    for source in sources:
        if source not in by_source:
            has = ", ".join(sorted(filter(None, by_source))) or "none that is named"
            raise RocchioError(f"no question has the source {source!r}; the files have {has}")
    return [question for source in (sources or by_source) for question in by_source[source]]


def balanced(questions: Iterable[Question]) -> list[Question]:
    """All questions, so ordered that any first so many hold every type alike, and within a type every source."""
    by_type: dict[str, dict[str, list[Question]]] = {name: {} for name in (*TYPES, "other")}
    for question in questions:
        by_type[question_type(question.question)].setdefault(question.source, []).append(question)
    return _in_turn(_in_turn(by_source.values()) for by_source in by_type.values())


def _in_turn(queues: Iterable[Sequence[Question]]) -> list[Question]:
    """The first of every queue, the second of every queue, …; a queue that has ended is passed over."""
    return [question for row in zip_longest(*queues) for question in row if question is not None]


CHUNK = 32  # questions; enough for full batches to the end, few enough that a kill costs little


class Backend(Protocol):
    """Opens engine and reader in a worker: picklable, opened once per worker."""

    def open(self) -> tuple[Engine, Reader]: ...


@dataclass(frozen=True, slots=True)
class BackendFiles:
    """An index and a reader on disk, at paths that every worker can see; `cache` is a file of readings."""

    index: Path
    reader: Path | None = None
    cache: Path | None = None

    def open(self) -> tuple[Engine, Reader]:
        from orienteer.engine.open import open_engine
        from orienteer.reader import TrainedReader

        reader = TrainedReader.from_pretrained(self.reader, threads=1)
        return open_engine(self.index, threads=1), CachedReader(reader, disk=self.cache)


@dataclass(frozen=True, slots=True)
class SearchedChunk:
    """A finished chunk: its lines and its cost."""

    lines: bytes
    seconds: float
    cpu_seconds: float
    read: int


@dataclass(frozen=True, slots=True)
class SearchChunks:
    """Makes a worker's function: opens the backend, then searches chunk after chunk."""

    backend: Backend
    variants: tuple[Variant, ...]
    config: RocchioConfig

    def __call__(self) -> Callable[[Sequence[Question]], SearchedChunk]:
        from orienteer.rocchio.batched_sessions import BatchedSearch

        engine, reader = self.backend.open()
        cached = reader if isinstance(reader, CachedReader) else CachedReader(reader)
        batched = BatchedSearch(engine, cached, self.variants, self.config)

        def search(questions: Sequence[Question]) -> SearchedChunk:
            started, cpu, read = perf_counter(), process_time(), cached.misses
            sessions = batched.play(questions)
            lines = b"".join(session_line(session) for of_question in sessions for session in of_question)
            return SearchedChunk(lines, perf_counter() - started, process_time() - cpu, cached.misses - read)

        return search


@dataclass(frozen=True, slots=True)
class GenerationProgress:
    """Questions done of all; `seconds_left` is None until a chunk was timed."""

    done: int
    total: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class GenerationCosts:
    """Of all finished chunks: seconds summed over workers, passages read that no cache had.

    Other programs on the machine lengthen `worker_seconds`, but hardly `cpu_seconds`.
    """

    questions: int
    sessions: int
    worker_seconds: float
    cpu_seconds: float
    passages_read: int


def generate(
    backend: Backend,
    questions: Sequence[Question],
    variants: Sequence[Variant],
    out: str | os.PathLike[str],
    config: RocchioConfig | None = None,
    *,
    chunk: int = CHUNK,
    workers: int = 1,
    ray: str | None = None,
    progress: Callable[[GenerationProgress], None] | None = None,
) -> GenerationCosts:
    """Searches the sessions of every question and writes them to `out`; an interrupted run continues."""
    job = _Job(Path(out), tuple(questions), tuple(variants), config or RocchioConfig(), chunk)
    job.check()
    engine, reader = backend.open()
    header = Header(job.config, fingerprint_of(engine), fingerprint_of(reader))
    del engine, reader
    if job.is_done(header):
        shutil.rmtree(job.parts, ignore_errors=True)
        return job.stored_costs()
    with job.begun(header):
        waiting = [number for number in range(job.chunks) if not job.has(number)]
        clock = _Clock(job, waiting, progress)
        work = SearchChunks(backend, job.variants, job.config)
        results = run_chunks(work, [job.questions_of(number) for number in waiting], workers=workers, ray=ray)
        for place, result in results:
            job.keep(waiting[place], result)
            clock.advance(waiting[place])
        return job.finish(header)


@dataclass(frozen=True, slots=True)
class _Job:
    out: Path
    questions: tuple[Question, ...]
    variants: tuple[Variant, ...]
    config: RocchioConfig
    chunk: int

    @property
    def parts(self) -> Path:
        return self.out.with_name(f"{self.out.name}.parts")

    @property
    def chunks(self) -> int:
        return -(-len(self.questions) // self.chunk)

    def questions_of(self, number: int) -> tuple[Question, ...]:
        return self.questions[number * self.chunk : (number + 1) * self.chunk]

    def part(self, number: int) -> Path:
        return self.parts / f"{number:05}.jsonl"

    def check(self) -> None:
        if not self.questions:
            raise RocchioError("no questions to search sessions for; name a file that has some")
        if not self.variants:
            raise RocchioError("no grammar to search with; expected one or more of G0 to G4")
        if self.chunk < 1:
            raise RocchioError(f"chunk = {self.chunk}; expected 1 question or more")
        ids = [clean(question.id) for question in self.questions]
        if len(set(ids)) < len(ids):
            twice = next(id for place, id in enumerate(ids) if id in ids[:place])
            raise RocchioError(f"two questions have the id {twice!r}; expected an id of its own for each")

    def expected(self, questions: Sequence[Question]) -> Iterator[tuple[str, Variant]]:
        return ((clean(question.id), variant) for question in questions for variant in self.variants)

    def is_done(self, header: Header) -> bool:
        """Whether the file holds the sessions asked for; raises where it holds others."""
        if not self.out.exists():
            return False
        from orienteer.rocchio.sessions import read_sessions

        stored, sessions = read_sessions(self.out)
        same = stored == header and all(
            session is not None and (session.id, session.variant) == wanted
            for session, wanted in _side_by_side(sessions, self.expected(self.questions))
        )
        if not same:
            raise RocchioError(f"{self.out} holds other sessions than those asked for; delete it or name another file")
        return True

    @contextmanager
    def begun(self, header: Header) -> Iterator[None]:
        """Locks the folder of parts and checks that it belongs to this job."""
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RocchioError(f"{self.parts}: cannot be made: {error.strerror}; choose another place") from None
        descriptor = os.open(self.parts, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RocchioError(f"another process is writing {self.out}; wait for it or name another file") from None
            self._check_config(header)
            yield
        finally:
            os.close(descriptor)

    def _check_config(self, header: Header) -> None:
        config = {**json.loads(header_line(header)), **self._digest()}
        file = self.parts / "plan.json"
        if not file.exists():
            atomic_write(file, [json.dumps(config, indent=1).encode()])
            return
        try:
            was = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise RocchioError(f"{file}: cannot be read: {error}; delete {self.parts} to start again") from None
        for name in config:
            if was.get(name) != config[name]:
                raise RocchioError(
                    f"{self.parts} was begun with {name} = {was.get(name)}, this is {config[name]}; "
                    "finish it as it was begun, delete it, or name another file"
                )

    def _digest(self) -> dict[str, Any]:
        rows = [question.identity for question in self.questions]
        variants = [[v.grammar.name, v.lambda1, v.lambda2] for v in self.variants]
        digest = blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()
        return {"chunk": self.chunk, "variants": variants, "questions": len(rows), "questions_fingerprint": digest}

    def has(self, number: int) -> bool:
        """Whether the chunk is there and whole."""
        try:
            lines = self.part(number).read_bytes().splitlines()
        except OSError:
            return False
        try:
            sessions = [read_session(line) for line in lines]
        except RocchioError:
            return False
        expected = self.expected(self.questions_of(number))
        return [(session.id, session.variant) for session in sessions] == list(expected)

    def keep(self, number: int, result: SearchedChunk) -> None:
        atomic_write(self.part(number), [result.lines])
        seconds, cpu = round(result.seconds, 3), round(result.cpu_seconds, 3)
        row = {"chunk": number, "seconds": seconds, "cpu_seconds": cpu, "read": result.read}
        with (self.parts / "costs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def finish(self, header: Header) -> GenerationCosts:
        def lines() -> Iterator[bytes]:
            yield header_line(header)
            for number in range(self.chunks):
                yield self.part(number).read_bytes()

        costs = self._costs()
        row = {name: getattr(costs, name) for name in GenerationCosts.__slots__}
        atomic_write(self._costs_file, [json.dumps(row).encode() + b"\n"])
        atomic_write(self.out, lines())
        shutil.rmtree(self.parts, ignore_errors=True)
        return costs

    @property
    def _costs_file(self) -> Path:
        return self.out.with_name(f"{self.out.name}.costs.json")

    def _costs(self) -> GenerationCosts:
        """A chunk that was done twice counts once; a torn line counts nothing."""
        by_chunk: dict[int, tuple[float, float, int]] = {}
        for line in (self.parts / "costs.jsonl").read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                costs = float(row["seconds"]), float(row["cpu_seconds"]), int(row["read"])
                by_chunk[int(row["chunk"])] = costs
            except (ValueError, KeyError, TypeError):
                continue
        questions = sum(len(self.questions_of(number)) for number in by_chunk)
        seconds, cpu, read = map(sum, zip(*by_chunk.values(), strict=True)) if by_chunk else (0.0, 0.0, 0)
        return GenerationCosts(questions, questions * len(self.variants), round(seconds, 3), round(cpu, 3), int(read))

    def stored_costs(self) -> GenerationCosts:
        """As written when the file was finished; zeros if that file is gone."""
        try:
            return GenerationCosts(**json.loads(self._costs_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return GenerationCosts(0, 0, 0.0, 0.0, 0)


def _side_by_side(actual: Iterator[Any], expected: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Both to the end of the longer one, None where one has ended."""
    for wanted in expected:
        yield next(actual, None), wanted
    for extra in islice(actual, 1):
        yield extra, None


class _Clock:
    """Estimates the time left from the chunks done since this process began."""

    def __init__(
        self, job: _Job, waiting: Sequence[int], progress: Callable[[GenerationProgress], None] | None
    ) -> None:
        self._job, self._progress = job, progress
        self._before = self._done = len(job.questions) - sum(len(job.questions_of(number)) for number in waiting)
        self._started = perf_counter()
        self._report()

    def advance(self, number: int) -> None:
        self._done += len(self._job.questions_of(number))
        self._report()

    def _report(self) -> None:
        if self._progress is None:
            return
        total, now = len(self._job.questions), self._done - self._before
        left = (perf_counter() - self._started) / now * (total - self._done) if now else None
        self._progress(GenerationProgress(self._done, total, left))
