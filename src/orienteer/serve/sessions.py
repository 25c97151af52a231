"""Sessions that people and agents work on together: asked, refined, undone, branched, handed back, saved.

`SessionManager` has those in memory, `SessionStore` those on disk.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

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

YOU = "you"
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{8,32}")
_NO_STEPS_YET = "nothing has been found yet in this session; let the agent begin, or ask again"
_REPLAY_DIFFERS = "this session does not come out as recorded; it can be looked at, not continued"


@dataclass(slots=True)
class ServedSession:
    """A session with its id and history. `session` is None while only its `record` is known; `replay` makes it.

    notes     one a step: who took it if not the session's agent, and the agent's notes
    seconds   one a step: how long the client waited
    stopped   "deadline" where the agent's time ran out
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
    parent: str | None = None
    stopped: str | None = None
    busy: bool = False


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
            return _checked(from_line(self._file(id).read_bytes()))
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
                yield file.stem, _checked(from_line(file.read_bytes()))
            except (OSError, RecordError):
                continue

    def _file(self, id: str) -> Path:
        if not SESSION_ID.fullmatch(id):
            raise UnknownSessionError(f"{id!r} is not the id of a session")
        return self._folder / f"{id}.jsonl"


class SessionManager:
    """All sessions in memory, the least recently used first to go, and those saved in `store`."""

    def __init__(self, worker: SessionWorker, store: SessionStore, limits: Limits) -> None:
        self.store, self.running = store, 0
        self._worker, self._limits = worker, limits
        self._sessions: OrderedDict[str, ServedSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def newest_first(self) -> list[ServedSession]:
        return list(reversed(self._sessions.values()))

    def get(self, id: str) -> ServedSession:
        """The session, from memory or from disk."""
        if id not in self._sessions:
            self._keep(self.from_record(id, self.store.load(id)))
        self._sessions.move_to_end(id)
        return self._sessions[id]

    def delete(self, id: str) -> None:
        in_memory = self._sessions.pop(id, None) is not None
        if not self.store.delete(id) and not in_memory:
            raise UnknownSessionError(f"no session {id!r} is open or saved; it may have been deleted")

    def load(self, record: Record) -> ServedSession:
        """A session from a client's file, under a new id."""
        return self._keep(self.from_record(_new_id(), record))

    def new(self, index: str, configured: ConfiguredAgent, question: Question) -> ServedSession:
        return self._keep(
            ServedSession(_new_id(), index, configured.name, configured.settings, question, configured.engine)
        )

    def branch(self, served: ServedSession, step: int) -> ServedSession:
        """A new session that shares the steps up to `step`."""
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
            notes=served.notes[: step + 1], seconds=served.seconds[: step + 1], parent=served.id,
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
        return replace(made, steps=steps)

    async def replay(self, served: ServedSession) -> None:
        """Takes the recorded steps again, so that the session can be continued."""
        if served.session is not None:
            return
        recorded = served.record
        if recorded is None:
            raise NotPlayableError(_NO_STEPS_YET)
        if not served.index:
            raise NotPlayableError(
                "this session was played on another index or by another reader; it can be looked at, not continued"
            )
        if len(recorded.steps) - 1 > self._limits.steps:
            raise NotPlayableError(f"this session has more than {self._limits.steps} steps, more than is played here")
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
            await self.replay(served)
            session = self._reopen(served)
            if objection := self._objection(served, session, action):
                raise RefinementRefusedError(objection)
            settings = replace(served.settings, steps=max(served.settings.steps, session.refinements_made + 1))
            result = await self._worker.run(_job(served, session, settings, action))
            if result.session.ended in ("illegal", "error"):
                raise RefinementRefusedError(result.session.error)
            self._advance(served, result, {"by": YOU}, settings, time.monotonic() - started)

    async def run(
        self, served: ServedSession, configured: ConfiguredAgent, steps: int, deadline: float
    ) -> AsyncGenerator[int, None]:
        """Lets an agent search; yields the number of each step when it is done. A deadline leaves the session open."""
        until = time.monotonic() + deadline
        with self._exclusive(served):
            if served.session is None and served.record is None:
                settings = replace(served.settings, steps=min(self._limits.steps, steps))
                if not await self._step(served, _job(served, served.question, settings), None, until):
                    return
                session = _need_session(served)
                if session.steps:
                    yield 0
            else:
                await self.replay(served)
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

    def _objection(self, served: ServedSession, session: Session, action: Refinement | Undo) -> str | None:
        return self._environment(served).objection(session, action)

    def _environment(self, served: ServedSession) -> Environment:
        return self._worker.environment(served.index, served.settings, served.engine)

    def from_record(self, id: str, record: Record) -> ServedSession:
        provenance = record.provenance
        return ServedSession(
            id, self._index_of(record), provenance.agent, provenance.settings, record.question, None, None, record,
            [step.notes for step in record.steps], [0.0] * len(record.steps),
        )  # fmt: skip

    def _index_of(self, record: Record) -> str:
        """The name of the index that the record was played on; empty where it cannot be played here."""
        provenance = record.provenance
        if provenance.reader != fingerprint_of(self._worker.reader) or not provenance.index:
            return ""
        names = (name for name, engine in self._worker.engines.items() if fingerprint_of(engine) == provenance.index)
        return next(names, "")

    def _keep(self, served: ServedSession) -> ServedSession:
        self._sessions[served.id] = served
        idle = [id for id, each in self._sessions.items() if not each.busy and id != served.id]
        for id in idle[: max(0, len(self._sessions) - self._limits.sessions)]:
            del self._sessions[id]
        return served

    @contextmanager
    def _exclusive(self, served: ServedSession) -> Iterator[None]:
        """One client at a time in a session, and no more running sessions than the limit."""
        if served.busy:
            raise SessionBusyError("the agent is at work in this session; stop it or wait")
        if self.running >= self._limits.running:
            raise TooBusyError(f"{self.running} sessions are at work, as many as this server allows; try again soon")
        served.busy = True
        self.running += 1
        try:
            yield
        finally:
            served.busy = False
            self.running -= 1


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


def _checked(record: Record) -> Record:
    """The record; raises `RecordError` unless it has every passage that its steps name."""
    for step in record.steps:
        for id in (*step.best, *step.entered, *step.left):
            if str(id) not in record.passages:
                raise RecordError(f"a damaged record: a step names the passage {id!r}, which is not in it")
    return record
