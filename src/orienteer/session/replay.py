"""A recorded session played again: the same index and reader give the same bytes."""

from __future__ import annotations

from dataclasses import replace

from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.reader.protocol import Reader
from orienteer.session.environment import Environment, ended
from orienteer.session.errors import ReplayError
from orienteer.session.record import Record, record, to_line
from orienteer.session.state import Session


def replay(recorded: Record, engine: Engine, reader: Reader) -> Record:
    """The record of the same actions, taken again; its bytes are compared by `check_replay`."""
    played = recorded.played_with
    environment = Environment(engine, reader, played.settings)
    [session] = environment.open([recorded.question])
    for step in recorded.steps[1:]:
        if step.action is None or session.ended:
            raise ReplayError(_where(recorded, len(session.steps), "the session has ended here", "a further step"))
        [session] = environment.take([session], [step.action])
    again = record(_as_it_ended(session, recorded), environment, played.agent)
    # What was noted beside a step is no outcome of it, so it is carried over.
    notes = {number: step.notes for number, step in enumerate(recorded.steps)}
    return replace(again, steps=tuple(replace(step, notes=notes.get(i)) for i, step in enumerate(again.steps)))


def check_replay(recorded: Record, engine: Engine, reader: Reader) -> None:
    """Raise `ReplayError` where the session does not come out as recorded, to the byte."""
    played = recorded.played_with
    for name, was, now in (
        ("index", played.index, fingerprint_of(engine)),
        ("reader", played.reader, fingerprint_of(reader)),
    ):
        if was != now:
            raise ReplayError(
                f"the session {recorded.question.id!r} was played with the {name} {was or '(unknown)'}, "
                f"this is {now or '(unknown)'}; open the same {name}"
            )
    again = replay(recorded, engine, reader)
    if to_line(again) == to_line(recorded):
        return
    for number, (old, new) in enumerate(zip(recorded.steps, again.steps, strict=False)):
        if old != new:
            raise ReplayError(_where(recorded, number, str(new), str(old)))
    raise ReplayError(_where(recorded, len(again.steps), "other passages or another ending", "those recorded"))


def _as_it_ended(session: Session, recorded: Record) -> Session:
    """An agent's own ending cannot be played again, so it is taken from the record: a stop, or a failure."""
    if session.ended is None and recorded.ended in ("stop", "illegal", "error"):
        return ended(session, recorded.ended, recorded.error)
    return session


def _where(recorded: Record, step: int, came: str, expected: str) -> str:
    return f"the session {recorded.question.id!r} differs at step {step}\n  came:     {came}\n  recorded: {expected}"
