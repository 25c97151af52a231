"""DAgger: states that the agent itself reaches, labelled by Rocchio: it learns to go on from its own mistakes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from orienteer.agents.pointer.labels import Moment, label
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import Grammar
from orienteer.reader.cache import CachedReader
from orienteer.reader.protocol import Reader
from orienteer.rocchio.lockstep import Choice, Lockstep
from orienteer.rocchio.plan import Plan, Variant
from orienteer.session import Agent, Environment, Observation, Session, Settings

TOGETHER = 32  # questions in lock-step


@dataclass(frozen=True, slots=True)
class Visits:
    """Which states of the agent's sessions are labelled: labelling one costs as much as a step of Rocchio.

    states   of each session, drawn by `seed`; the first state of all is left out, recorded sessions have it
    """

    states: int = 2
    steps: int = 20
    seed: int = 0


def visited(
    environment: Environment, agent: Agent, questions: Sequence[Question], visits: Visits
) -> list[Session]:  # fmt: skip
    """Some states of the sessions that the agent plays, in the questions' order."""
    sessions = environment.open(questions)
    reached: list[list[Session]] = [[] for _ in sessions]
    while places := [place for place, session in enumerate(sessions) if not session.ended]:
        actions = agent.act(environment.observe([sessions[place] for place in places]))
        going = environment.take([sessions[place] for place in places], list(actions))
        for place, session in zip(places, going, strict=True):
            sessions[place] = session
            if not session.ended:
                reached[place].append(session)
    generator = random.Random(f"{visits.seed} {questions[0].id if questions else ''}")
    return [
        session
        for own in reached
        for session in sorted(generator.sample(own, min(visits.states, len(own))), key=lambda s: s.refinements_made)
    ]


def dagger_batches(
    engine: Engine, reader: Reader, agent: Agent, grammar: Grammar, questions: Sequence[Question], snippet: int,
    visits: Visits | None = None, plan: Plan | None = None,
) -> Callable[[int], Iterator[list[Moment]]]:  # fmt: skip
    """Batches of labelled moments for `examples.build`; each depends on its own questions alone."""
    visits = visits or Visits()
    settings = Settings(steps=visits.steps, snippet=snippet)
    plan = replace(plan or Plan(read_budget=200), settings=settings)
    remembered = reader if isinstance(reader, CachedReader) else CachedReader(reader)
    rocchio = Lockstep(engine, remembered, [Variant(grammar)], plan)
    environment = Environment(engine, remembered, settings)

    def batches(done: int) -> Iterator[list[Moment]]:
        for start in range(done * TOGETHER, len(questions), TOGETHER):
            sessions = visited(environment, agent, questions[start : start + TOGETHER], visits)
            found = zip(sessions, environment.observe(sessions), rocchio.choose(sessions), strict=True)
            yield [_moment(grammar, session, seen, choice) for session, seen, choice in found if choice is not None]

    return batches


def _moment(grammar: Grammar, session: Session, observation: Observation, choice: Choice) -> Moment:
    assert session.score is not None
    told = label(grammar, session.score.total, choice.chosen, choice.others)
    return Moment(session.question.id, observation, (told,))
