"""Sessions that people and agents work on together: asked, refined, undone, branched, handed back, saved."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.query import Refinement
from orienteer.serve.errors import (
    LimitError,
    NotPlayableError,
    RefinementRefusedError,
    SessionBusyError,
    TooBusyError,
    UnknownSessionError,
)
from orienteer.serve.limits import Limits
from orienteer.serve.session_store import SavedSessions
from orienteer.serve.session_worker import Move, Moved, Player
from orienteer.session import Action, Agent, Environment, Record, Session, Settings, Undo, best_of, record
from orienteer.session.agent import StepNotes

YOU = "you"
_NOTHING_YET = "nothing has been found yet in this session; let the agent begin, or ask again"
_OTHERWISE = "this session does not come out as recorded; it can be looked at, not continued"


@dataclass(slots=True)
class Work:
    """A session on the bench. `played` is None while only its record is known: it is played again when needed.

    notes     one a step: who took it, where that is not the session's agent, and what an agent noted
    seconds   one a step, as the client had to wait
    """

    id: str
    index: str
    agent: str
    settings: Settings
    question: Question
    engine: Engine | None = None
    played: Session | None = None
    recorded: Record | None = None
    notes: list[StepNotes | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    parent: str | None = None
    stopped: str | None = None
    busy: bool = False


class Bench:
    """All sessions in hand; the oldest untouched one makes room for a new one."""

    def __init__(self, player: Player, saved: SavedSessions, limits: Limits) -> None:
        self.player, self.saved, self.limits = player, saved, limits
        self._works: OrderedDict[str, Work] = OrderedDict()
        self.running = 0

    def __len__(self) -> int:
        return len(self._works)

    def works(self) -> list[Work]:
        """The newest first."""
        return list(reversed(self._works.values()))

    def get(self, id: str) -> Work:
        """The session, from memory or from disk."""
        if id not in self._works:
            recorded = self.saved.load(id)
            self._keep(self.from_record(id, recorded))
        self._works.move_to_end(id)
        return self._works[id]

    def delete(self, id: str) -> None:
        in_memory = self._works.pop(id, None) is not None
        if not self.saved.delete(id) and not in_memory:
            raise UnknownSessionError(f"no session {id!r} is open or saved; it may have been deleted")

    def load(self, recorded: Record) -> Work:
        """A session from somebody's file, under an id of its own."""
        return self._keep(self.from_record(_new_id(), recorded))

    def new(self, index: str, entry: ConfiguredAgent, question: Question) -> Work:
        return self._keep(Work(_new_id(), index, entry.name, entry.settings, question, entry.engine))

    def branch(self, work: Work, step: int) -> Work:
        """A new session that has gone the same way up to a step."""
        session = _need_played(work)
        if not 0 <= step < len(session.steps):
            raise LimitError(f"step {step}; this session has the steps 0 to {len(session.steps) - 1}")
        seen = tuple(each for each in session.seen if each.step <= step)
        start = replace(
            session, steps=session.steps[: step + 1], seen=seen,
            best=best_of(seen, work.settings.order), ended=None, error="",
        )  # fmt: skip
        return self._keep(
            Work(_new_id(), work.index, work.agent, work.settings, work.question, work.engine, start,
                 notes=work.notes[: step + 1], seconds=work.seconds[: step + 1], parent=work.id)
        )  # fmt: skip

    def save(self, work: Work) -> None:
        self.saved.save(work.id, self.record(work))

    def record(self, work: Work) -> Record:
        """The session as its file will have it."""
        if work.played is None:
            if work.recorded is None:
                raise NotPlayableError(_NOTHING_YET)
            return work.recorded
        made = record(work.played, self._environment(work), work.agent)
        steps = tuple(replace(step, notes=note) for step, note in zip(made.steps, work.notes, strict=True))
        return replace(made, steps=steps)

    async def wake(self, work: Work) -> None:
        """Plays a recorded session again, so that it can be continued."""
        if work.played is not None:
            return
        recorded = work.recorded
        if recorded is None:
            raise NotPlayableError(_NOTHING_YET)
        if not work.index:
            raise NotPlayableError(
                "this session was played on another index or by another reader; it can be looked at, not continued"
            )
        if len(recorded.steps) - 1 > self.limits.steps:
            raise NotPlayableError(f"this session has more than {self.limits.steps} steps, more than is played here")
        endless = replace(work.settings, steps=self.limits.steps + 1, dead_ends="undo")
        session = (await self.player.play(_move(work, work.question, endless))).session
        for step in recorded.steps[1:]:
            if session.ended or step.action is None or self._objection(work, session, step.action):
                raise NotPlayableError(_OTHERWISE)
            session = (await self.player.play(_move(work, session, endless, step.action))).session
        if [step.best for step in session.steps] != [step.best for step in recorded.steps]:
            raise NotPlayableError(_OTHERWISE)
        work.played = replace(session, ended=recorded.ended, error=recorded.error)

    async def refine(self, work: Work, action: Refinement | Undo) -> None:
        """A person's own refinement, or the last one taken back; also after the agent is done."""
        started = time.monotonic()
        with self._at_work(work):
            await self.wake(work)
            session = self._reopened(work)
            if why := self._objection(work, session, action):
                raise RefinementRefusedError(why)
            room = replace(work.settings, steps=max(work.settings.steps, session.refinements_made + 1))
            moved = await self.player.play(_move(work, session, room, action))
            if moved.session.ended in ("illegal", "error"):
                raise RefinementRefusedError(moved.session.error)
            self._advance(work, moved, {"by": YOU}, room, time.monotonic() - started)

    async def run(self, work: Work, entry: ConfiguredAgent, steps: int, deadline: float) -> AsyncIterator[int]:
        """Lets an agent search; yields the number of each step as it is done. A deadline leaves the session open."""
        until = time.monotonic() + deadline
        with self._at_work(work):
            if work.played is None and work.recorded is None:
                settings = replace(work.settings, steps=min(self.limits.steps, steps))
                if not await self._move(work, _move(work, work.question, settings), None, until):
                    return
                session = _need_played(work)
                if session.steps:
                    yield 0
            else:
                await self.wake(work)
                session = self._reopened(work)
                own = replace(work.settings, allow_stop=entry.settings.allow_stop, snippet=entry.settings.snippet)
                settings = replace(own, steps=min(self.limits.steps, session.refinements_made + steps))
            by: StepNotes | None = {"by": entry.name} if entry.name != work.agent else None
            while not session.ended:
                before = len(session.steps)
                if not await self._move(work, _move(work, session, settings, entry.agent), by, until):
                    return
                session = _need_played(work)
                if len(session.steps) > before:
                    yield before

    async def _move(self, work: Work, move: Move, by: StepNotes | None, until: float) -> bool:
        """One move of an agent's; False where the deadline came first and nothing was changed."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, until - started)):
                moved = await self.player.play(move)
        except TimeoutError:
            work.stopped = "deadline"
            return False
        self._advance(work, moved, by, move.settings, time.monotonic() - started)
        return True

    def _advance(self, work: Work, moved: Moved, by: StepNotes | None, settings: Settings, seconds: float) -> None:
        work.played, work.settings, work.recorded, work.stopped = moved.session, settings, None, None
        if len(moved.session.steps) > len(work.notes):
            work.notes.append({**(by or {}), **(moved.notes or {})} or None)
            work.seconds.append(seconds)

    def _reopened(self, work: Work) -> Session:
        """The session, open again where its steps were used up or an agent ended it."""
        session = _need_played(work)
        if not session.steps or not session.steps[0].hits:
            why = session.error or "the question found nothing"
            raise NotPlayableError(f"{why}; ask again in other words")
        if session.refinements_made >= self.limits.steps:
            raise LimitError(f"{self.limits.steps} steps were taken, more are not allowed here")
        if session.ended == "dead end":
            work.settings = replace(work.settings, dead_ends="undo")
        return replace(session, ended=None, error="")

    def _objection(self, work: Work, session: Session, action: Refinement | Undo) -> str | None:
        return self._environment(work).objection(session, action)

    def _environment(self, work: Work) -> Environment:
        return self.player.environment(work.index, work.settings, work.engine)

    def from_record(self, id: str, recorded: Record) -> Work:
        played = recorded.provenance
        return Work(
            id, self._index_of(recorded), played.agent, played.settings, recorded.question, None, None, recorded,
            [step.notes for step in recorded.steps], [0.0] * len(recorded.steps),
        )  # fmt: skip

    def _index_of(self, recorded: Record) -> str:
        """The name of the index that the record was played on; empty where it cannot be played here."""
        played = recorded.provenance
        if played.reader != fingerprint_of(self.player.reader) or not played.index:
            return ""
        names = (name for name, engine in self.player.engines.items() if fingerprint_of(engine) == played.index)
        return next(names, "")

    def _keep(self, work: Work) -> Work:
        self._works[work.id] = work
        idle = [id for id, each in self._works.items() if not each.busy and id != work.id]
        for id in idle[: max(0, len(self._works) - self.limits.sessions)]:
            del self._works[id]
        return work

    @contextmanager
    def _at_work(self, work: Work) -> Iterator[None]:
        """One at a time in a session, and not more sessions at a time than the server can carry."""
        if work.busy:
            raise SessionBusyError("the agent is at work in this session; stop it or wait")
        if self.running >= self.limits.running:
            raise TooBusyError(f"{self.running} sessions are at work, as many as this server allows; try again soon")
        work.busy = True
        self.running += 1
        try:
            yield
        finally:
            work.busy = False
            self.running -= 1


def asked(question: str, answers: Sequence[str] = ()) -> Question:
    """The question as the command line asks it: chance depends on the id, so it is the same everywhere."""
    return Question("ask", question, tuple(answers))


def _move(work: Work, session: Session | Question, settings: Settings, action: Action | Agent | None = None) -> Move:
    return Move(work.index, session, settings, action, work.engine)


def _need_played(work: Work) -> Session:
    if work.played is None:
        raise NotPlayableError(_NOTHING_YET)
    return work.played


def _new_id() -> str:
    return secrets.token_urlsafe(12)
