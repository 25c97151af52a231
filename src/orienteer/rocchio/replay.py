"""Training examples: replays recorded sessions with index and reader to get their observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.query import Refinement
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.rocchio.config import RocchioError
from orienteer.rocchio.sessions import SEARCHED, Header, RocchioSession
from orienteer.session import Environment, Observation, Session

BATCH_SIZE = 256  # sessions
# Readers in int8 round differently on processors with and without VNNI: PS differs by a hundredth or so, and sometimes
# two passages change places. Such a session ends there; where many do, the data are not those of the sessions.
_NEAR = 0.02
_MOST_DIFFERENT = 0.2  # of the sessions of a batch


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """o_t and Δq_t, and the other candidates with their scores.

    `refinement` is None in a session's last state if no candidate raised the score: an agent should stop.
    """

    id: str
    observation: Observation
    refinement: Refinement | None
    score: float
    others: tuple[tuple[Refinement, float], ...] = ()


def training_steps(
    header: Header,
    sessions: Iterable[RocchioSession],
    questions: Iterable[Question],
    engine: Engine,
    reader: Reader,
    *,
    snippet: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> Iterator[list[TrainingStep]]:
    """The steps of each session, in the sessions' order; a question that was not searched gives no steps.

    Scores are compared with those recorded: another index or reader is an error, not bad training data. A session
    that a processor's rounding turns another way gives the steps before that. `snippet` is the length that the agent
    sees, if it differs from the search's.
    """
    for what, was, now in (
        ("index", header.index, fingerprint_of(engine)),
        ("reader", header.reader, fingerprint_of(reader)),
    ):
        if was != now:
            raise RocchioError(f"the sessions were made with the {what} {was}, this is {now}; open the same {what}")
    by_id = {clean(question.id): question for question in questions}
    waiting = iter(sessions)
    while batch := list(islice(waiting, batch_size)):
        yield from _replayed(header, batch, by_id, engine, reader, snippet)


def _replayed(
    header: Header, batch: Sequence[RocchioSession], by_id: dict[str, Question], engine: Engine, reader: Reader,
    snippet: int | None,
) -> Iterator[list[TrainingStep]]:  # fmt: skip
    for session in batch:
        if session.id not in by_id:
            raise RocchioError(f"no question has the id {session.id!r}; name the questions the sessions were made for")
    steps: list[list[TrainingStep]] = [[] for _ in batch]
    different: list[str] = []
    by_variant: dict[object, list[int]] = {}
    for place, session in enumerate(batch):
        if session.ended in SEARCHED:
            by_variant.setdefault(session.variant, []).append(place)
    for places in by_variant.values():
        settings = header.config.settings_of(batch[places[0]].variant)
        settings = settings if snippet is None else replace(settings, snippet=snippet)
        environment = Environment(engine, reader, settings)
        playing = dict(zip(places, environment.open([by_id[batch[place].id] for place in places]), strict=True))
        number = 0
        while playing:
            for place, played in list(playing.items()):
                if difference := _difference(played, batch[place], number):
                    different.append(difference)
                    del playing[place]
                else:
                    steps[place] += _step(environment, played, batch[place], number)
            playing = {place: played for place, played in playing.items() if number < len(batch[place].steps)}
            actions = [batch[place].steps[number].refinement for place in playing]
            taken = environment.step(list(playing.values()), actions)
            playing = dict(zip(playing, taken, strict=True))
            number += 1
    if len(different) > _MOST_DIFFERENT * sum(map(len, by_variant.values())):
        raise RocchioError(f"{different[0]}; use the questions, index and reader it was made with")
    yield from steps


def _difference(session: Session, recorded: RocchioSession, number: int) -> str:
    """How the score before step `number` differs from the recorded one; empty where it does not."""
    before = recorded.start if number == 0 else recorded.steps[number - 1].state
    was, now = before.score.total if before else None, session.score.total if session.score else None
    if was is not None and now is not None and abs(now - was) <= _NEAR:
        return ""
    return f"the session {recorded.id!r} has the score {now} after {number} steps, {was} was recorded"


def _step(environment: Environment, session: Session, recorded: RocchioSession, number: int) -> list[TrainingStep]:
    """The state before step `number`; after the last one only where the session could have gone on."""
    if number < len(recorded.steps):
        [observation] = environment.observe([session])
        step = recorded.steps[number]
        return [TrainingStep(recorded.id, observation, step.refinement, step.state.score.total, step.others)]
    if recorded.ended != "best":
        return []
    [observation] = environment.observe([session])
    assert session.score is not None
    return [TrainingStep(recorded.id, observation, None, session.score.total)]
