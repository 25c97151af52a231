"""Sessions that people and agents work on together: asked, refined, undone, branched, handed back, saved.

`SessionManager` has those in memory, `SessionStore` those on disk.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.query import Refinement
from orienteer.serve.errors import (
    DiskFullError,
    LimitError,
    NotPlayableError,
    RefinementRefusedError,
    SessionBusyError,
    TooBusyError,
    UnknownSessionError,
)
from orienteer.serve.memory import deep_size
from orienteer.serve.security import Limits
from orienteer.serve.session_worker import SessionWorker, StepJob, StepResult
from orienteer.session import (
    Action,
    Agent,
    Environment,
    Record,
    RecordError,
    Session,
    Settings,
    Undo,
    best_of,
    from_line,
    record,
    write_records,
)
from orienteer.session.agent import StepNotes
from orienteer.session.confidence import shipped_model
from orienteer.session.sentences import explanation_of

T = TypeVar("T")

YOU = "you"
_OVERHEAD = 4096  # bytes of a session beside its text, so that those without text go too
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{8,32}")
_NO_STEPS_YET = "nothing has been found yet in this session; let the agent begin, or ask again"
_REPLAY_DIFFERS = "this session does not come out as recorded; it can be looked at, not continued"


@dataclass(slots=True)
class ServedSession:
    """A session with its id and history. `session` is None while only its `record` is known; `replay` makes it.

    notes     one a step: who took it if not the session's agent, and the agent's notes
    seconds   one a step: how long the client waited
    probabilities   by step, where they were computed: how likely its answer is right
    stopped   "deadline" where the agent's time ran out
    obstacle  why the session cannot be continued here; empty where it can
    where     the filter that it searches behind
    size      bytes in memory, of its notes among them, used when it was last used: what eviction goes by
    """

    id: str
    index: str
    agent: str
    settings: Settings
    question: Question
    engine: Engine | None = None
    session: Session | None = None
    record: Record | None = None
    notes: list[StepNotes | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    probabilities: dict[int, float | None] = field(default_factory=dict)
    parent: str | None = None
    stopped: str | None = None
    busy: bool = False
    obstacle: str = ""
    where: str = ""
    size: int = 0
    notes_size: int = 0
    used: float = field(default_factory=time.monotonic)

    def snapshot(self) -> ServedSession:
        """The session as it is now, for another thread to show."""
        return replace(self, notes=list(self.notes), seconds=list(self.seconds))


class SessionStore:
    """A folder of saved sessions, one file each, named by id and written atomically; `orienteer show` reads them.

    Lists leave out a damaged file; loading it raises `RecordError`.
    """

    def __init__(self, folder: Path, max_sessions: int) -> None:
        self._folder, self._max_sessions = folder, max_sessions

    def save(self, id: str, record: Record) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._file(id)
        if not file.exists() and sum(1 for _ in self._folder.glob("*.jsonl")) >= self._max_sessions:
            raise DiskFullError(f"{self._max_sessions} sessions are saved, more are not kept; delete some")
        write_records(file, [record])

    def load(self, id: str) -> Record:
        try:
            return from_line(self._file(id).read_bytes())
        except OSError:
            raise UnknownSessionError(f"no session {id!r} is open or saved; it may have been deleted") from None

    def delete(self, id: str) -> bool:
        """False where there was none."""
        try:
            self._file(id).unlink()
        except OSError:
            return False
        return True

    def __contains__(self, id: str) -> bool:
        return self._file(id).is_file()

    def newest(self, count: int) -> Iterator[tuple[str, Record]]:
        """Ids and records, the last saved first."""
        files = []
        for file in self._folder.glob("*.jsonl"):
            try:
                files.append((file.stat().st_mtime, file))
            except OSError:  # deleted in the meantime
                continue
        for _, file in sorted(files, reverse=True)[:count]:
            try:
                yield file.stem, from_line(file.read_bytes())
            except (OSError, RecordError):
                continue

    def _file(self, id: str) -> Path:
        if not SESSION_ID.fullmatch(id):
            raise UnknownSessionError(f"{id!r} is not the id of a session")
        return self._folder / f"{id}.jsonl"


class SessionManager:
    """All sessions in memory, and those saved in `store`.

    Where there are too many sessions, the one that was used longest ago goes. Where they have too many bytes, the one
    with the largest product of idle time and bytes goes first: somebody who loads large files displaces those files,
    not everybody's small sessions.
    """

    def __init__(self, worker: SessionWorker, store: SessionStore, limits: Limits) -> None:
        self.store, self.running = store, 0
        self._worker, self._limits = worker, limits
        self._sessions: OrderedDict[str, ServedSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def bytes_in_memory(self) -> int:
        return sum(each.size for each in self._sessions.values())

    def newest_first(self) -> list[ServedSession]:
        return list(reversed(self._sessions.values()))

    def get(self, id: str) -> ServedSession:
        """The session, from memory or from disk."""
        if id not in self._sessions:
            self._keep(self.from_record(id, self.store.load(id)))
        self._sessions.move_to_end(id)
        self._sessions[id].used = time.monotonic()
        return self._sessions[id]

    def delete(self, id: str) -> None:
        in_memory = self._sessions.pop(id, None) is not None
        if not self.store.delete(id) and not in_memory:
            raise UnknownSessionError(f"no session {id!r} is open or saved; it may have been deleted")

    def load(self, record: Record) -> ServedSession:
        """A session from a client's file, under a new id."""
        return self._keep(self.from_record(_new_id(), record))

    def new(self, index: str, configured: ConfiguredAgent, question: Question) -> ServedSession:
        """A session without steps; it is kept when an agent begins, so that a refused one displaces nobody."""
        self._check_running()
        return ServedSession(_new_id(), index, configured.name, configured.settings, question, configured.engine)

    async def branch(self, served: ServedSession, step: int) -> ServedSession:
        """A new session that shares the steps up to `step`."""
        if served.session is None:
            with self._exclusive(served):
                await self._in_time(self._replay(served))
        session = _need_session(served)
        if not 0 <= step < len(session.steps):
            raise LimitError(f"step {step}; this session has the steps 0 to {len(session.steps) - 1}")
        seen = tuple(each for each in session.seen if each.step <= step)
        start = replace(
            session, steps=session.steps[: step + 1], seen=seen,
            best=best_of(seen, served.settings.order), ended=None, error="",
        )  # fmt: skip
        branch = ServedSession(
            _new_id(), served.index, served.agent, served.settings, served.question, served.engine, start,
            notes=served.notes[: step + 1], seconds=served.seconds[: step + 1], parent=served.id, where=served.where,
        )  # fmt: skip
        return self._keep(branch)

    def save(self, served: ServedSession) -> None:
        self.store.save(served.id, self.record(served))

    def record(self, served: ServedSession) -> Record:
        """The session as its file has it."""
        if served.session is None:
            if served.record is None:
                raise NotPlayableError(_NO_STEPS_YET)
            return served.record
        made = record(served.session, self._environment(served), served.agent)
        steps = tuple(replace(step, notes=note) for step, note in zip(made.steps, served.notes, strict=True))
        return replace(
            made,
            steps=steps,
            confidence=shipped_model().probability(served.session),
            explanation=explanation_of(served.session),
        )

    async def _in_time(self, work: Awaitable[T]) -> T:
        """The result of a person's request; one that takes longer than the deadline changes nothing."""
        try:
            async with asyncio.timeout(self._limits.deadline):
                return await work
        except TimeoutError:
            raise TooBusyError(
                f"not done in {self._limits.deadline:g} seconds, the session is as before; try again soon"
            ) from None

    async def _replay(self, served: ServedSession) -> None:
        """Takes the recorded steps again, so that the session can be continued; the caller holds the session."""
        if served.session is not None:
            return
        recorded = served.record
        if recorded is None:
            raise NotPlayableError(_NO_STEPS_YET)
        if served.obstacle:
            raise NotPlayableError(f"{served.obstacle}; it can be looked at, not continued")
        settings = replace(served.settings, steps=self._limits.steps + 1, dead_ends="undo")
        session = (await self._worker.run(_job(served, served.question, settings))).session
        for step in recorded.steps[1:]:
            if session.ended or step.action is None or self._objection(served, session, step.action):
                raise NotPlayableError(_REPLAY_DIFFERS)
            session = (await self._worker.run(_job(served, session, settings, step.action))).session
        if [step.best for step in session.steps] != [step.best for step in recorded.steps]:
            raise NotPlayableError(_REPLAY_DIFFERS)
        served.session = replace(session, ended=recorded.ended, error=recorded.error)

    async def refine(self, served: ServedSession, action: Refinement | Undo) -> None:
        """Takes a person's refinement or undo; also after the agent has ended."""
        started = time.monotonic()
        with self._exclusive(served):
            result, settings = await self._in_time(self._refined(served, action))
            self._advance(served, result, {"by": YOU}, settings, time.monotonic() - started)

    async def _refined(self, served: ServedSession, action: Refinement | Undo) -> tuple[StepResult, Settings]:
        await self._replay(served)
        session = self._reopen(served)
        if objection := self._objection(served, session, action):
            raise RefinementRefusedError(objection)
        settings = replace(served.settings, steps=max(served.settings.steps, session.refinements_made + 1))
        result = await self._worker.run(_job(served, session, settings, action))
        if result.session.ended in ("illegal", "error"):
            raise RefinementRefusedError(result.session.error)
        return result, settings

    async def run(
        self, served: ServedSession, configured: ConfiguredAgent, steps: int, deadline: float
    ) -> AsyncGenerator[int, None]:
        """Lets an agent search; yields the number of each step when it is done. A deadline leaves the session open."""
        until = time.monotonic() + deadline
        with self._exclusive(served):
            if served.session is None and served.record is None:
                self._keep(served)
                settings = replace(served.settings, steps=min(self._limits.steps, steps))
                if not await self._step(served, _job(served, served.question, settings), None, until):
                    return
                session = _need_session(served)
                if session.steps:
                    yield 0
            else:
                try:
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline):
                        await self._replay(served)
                except TimeoutError:
                    served.stopped = "deadline"
                    return
                session = self._reopen(served)
                settings = replace(
                    served.settings, allow_stop=configured.settings.allow_stop, snippet=configured.settings.snippet,
                    steps=min(self._limits.steps, session.refinements_made + steps),
                )  # fmt: skip
            by: StepNotes | None = {"by": configured.name} if configured.name != served.agent else None
            while not session.ended:
                before = len(session.steps)
                if not await self._step(served, _job(served, session, settings, agent=configured.agent), by, until):
                    return
                session = _need_session(served)
                if len(session.steps) > before:
                    yield before

    async def _step(self, served: ServedSession, job: StepJob, by: StepNotes | None, until: float) -> bool:
        """One step of an agent; False where the deadline came first and nothing was changed."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, until - started)):
                result = await self._worker.run(job)
        except TimeoutError:
            served.stopped = "deadline"
            return False
        self._advance(served, result, by, job.settings, time.monotonic() - started)
        return True

    def _advance(
        self, served: ServedSession, result: StepResult, by: StepNotes | None, settings: Settings, seconds: float
    ) -> None:
        served.session, served.settings, served.record, served.stopped = result.session, settings, None, None
        if len(result.session.steps) > len(served.notes):
            served.notes.append({**(by or {}), **(result.notes or {})} or None)
            served.seconds.append(seconds)
            served.notes_size += result.notes_size
        if served.id in self._sessions:
            self._keep(served, result.size)

    def _reopen(self, served: ServedSession) -> Session:
        """The session, open again where its steps were used up or an agent ended it."""
        session = _need_session(served)
        if not session.steps or not session.steps[0].hits:
            reason = session.error or "the question found nothing"
            raise NotPlayableError(f"{reason}; ask again in other words")
        if session.refinements_made >= self._limits.steps:
            raise LimitError(f"{self._limits.steps} steps were taken, more are not allowed here")
        if session.ended == "dead end":
            served.settings = replace(served.settings, dead_ends="undo")
        return replace(session, ended=None, error="")

    def _objection(self, served: ServedSession, session: Session, action: Action) -> str | None:
        return self._environment(served).objection(session, action)

    def _environment(self, served: ServedSession) -> Environment:
        return self._worker.environment(served.index, served.settings, served.engine)

    def from_record(self, id: str, record: Record) -> ServedSession:
        provenance, index = record.provenance, self._index_of(record)
        return ServedSession(
            id, index, provenance.agent, provenance.settings, record.question, None, None, record,
            [step.notes for step in record.steps], [0.0] * len(record.steps), obstacle=self._obstacle(record, index),
        )  # fmt: skip

    def _obstacle(self, record: Record, index: str) -> str:
        """Why a record cannot be continued here; empty where it can."""
        if not index:
            return "this session was played on another index or by another reader"
        settings = record.provenance.settings
        for what, number, limit in (
            ("steps", len(record.steps) - 1, self._limits.steps),
            ("passages a query", settings.hits, self._limits.k),
            ("words of a snippet", settings.snippet, self._limits.snippet),
            ("characters of the question", len(record.question.question), self._limits.question),
        ):
            if number > limit:
                return f"this session has {number:,} {what}; this server allows {limit:,}"
        return ""

    def _index_of(self, record: Record) -> str:
        """The name of the index that the record was played on; empty where it cannot be played here."""
        provenance = record.provenance
        if provenance.reader != fingerprint_of(self._worker.reader) or not provenance.index:
            return ""
        names = (name for name, engine in self._worker.engines.items() if fingerprint_of(engine) == provenance.index)
        return next(names, "")

    def _keep(self, served: ServedSession, size: int | None = None) -> ServedSession:
        """`size`: the bytes of its session, where they are known."""
        if size is None:
            size = deep_size(served.session, served.record, served.question)
            served.notes_size = deep_size(served.notes)
        served.size, served.used = size + served.notes_size, time.monotonic()
        if served.size > self._limits.memory // 8:
            self._sessions.pop(served.id, None)
            raise LimitError(
                f"a session of {served.size:,} bytes; this server keeps at most {self._limits.memory // 8:,}"
            )
        self._sessions[served.id] = served
        self._evict(served)
        return served

    def _evict(self, newest: ServedSession) -> None:
        total, now = self.bytes_in_memory, time.monotonic()
        while (too_many := len(self._sessions) > self._limits.sessions) or total > self._limits.memory:
            idle = [each for each in self._sessions.values() if not each.busy and each is not newest]
            if not idle:
                return
            gone = max(idle, key=_idle_time(now) if too_many else _idle_bytes(now))
            total -= gone.size
            del self._sessions[gone.id]

    @contextmanager
    def _exclusive(self, served: ServedSession) -> Iterator[None]:
        """One client at a time in a session, and no more running sessions than the limit."""
        if served.busy:
            raise SessionBusyError("the agent is at work in this session; stop it or wait")
        self._check_running()
        served.busy = True
        self.running += 1
        try:
            yield
        finally:
            served.busy = False
            self.running -= 1

    def _check_running(self) -> None:
        if self.running >= self._limits.running:
            raise TooBusyError(f"{self.running} sessions are at work, as many as this server allows; try again soon")


def _idle_time(now: float) -> Callable[[ServedSession], float]:
    return lambda served: now - served.used


def _idle_bytes(now: float) -> Callable[[ServedSession], float]:
    return lambda served: (now - served.used) * (served.size + _OVERHEAD)


def _job(
    served: ServedSession,
    session: Session | Question,
    settings: Settings,
    action: Action | None = None,
    agent: Agent | None = None,
) -> StepJob:
    return StepJob(served.index, session, settings, action, agent, served.engine)


def _need_session(served: ServedSession) -> Session:
    if served.session is None:
        raise NotPlayableError(_NO_STEPS_YET)
    return served.session


def _new_id() -> str:
    return secrets.token_urlsafe(12)
