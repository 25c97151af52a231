"""Runs an agent on many questions, in batches: each step makes one call to the engine, the reader and the agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Protocol, runtime_checkable

from orienteer.data.passage import Question
from orienteer.session.agent import Agent, decisions
from orienteer.session.environment import Environment, Seconds, ended
from orienteer.session.observation import Observation
from orienteer.session.state import NO_COST, Action, AgentCost, Session

BATCH_SIZE = 256  # sessions: enough for full batches of passages, and some tens of megabytes


@dataclass(frozen=True, slots=True)
class Run:
    """Finished sessions in the questions' order, and where the time went."""

    sessions: tuple[Session, ...]
    seconds: Seconds

    @property
    def queries(self) -> int:
        return sum(session.queries for session in self.sessions)

    @property
    def passages_read(self) -> int:
        return sum(session.passages_read for session in self.sessions)


@runtime_checkable
class WholeSessionAgent(Protocol):
    """An agent that plays whole sessions by itself: an ensemble, which merges its members' sessions, or Rocchio."""

    def play(
        self, environment: Environment, questions: Iterable[Question], *, batch_size: int = BATCH_SIZE
    ) -> Iterator[list[Session]]:
        """Batches of finished sessions, in the questions' order."""
        ...


def run_sessions(
    environment: Environment, agent: Agent, questions: Iterable[Question], *, batch_size: int = BATCH_SIZE
) -> Run:
    """All questions, `batch_size` at a time."""
    environment.seconds = seconds = Seconds()
    sessions = [session for batch in play(environment, agent, questions, batch_size=batch_size) for session in batch]
    return Run(tuple(sessions), seconds)


def play(
    environment: Environment, agent: Agent, questions: Iterable[Question], *, batch_size: int = BATCH_SIZE
) -> Iterator[list[Session]]:
    """Batches of finished sessions, in the questions' order, each as soon as it is finished.

    An agent that raises or returns an illegal action ends only the session concerned, which keeps what it has found
    and says why. Where it returns the wrong number of actions, it is asked for each session alone.
    """
    if isinstance(agent, WholeSessionAgent):
        yield from agent.play(environment, questions, batch_size=batch_size)
        return
    waiting = iter(questions)
    while batch := list(islice(waiting, batch_size)):
        started = perf_counter()
        sessions = environment.open(batch)
        while places := [i for i, session in enumerate(sessions) if not session.ended]:
            going = advance(environment, agent, [sessions[i] for i in places])
            for i, session in zip(places, going, strict=True):
                sessions[i] = session
        environment.seconds.total += perf_counter() - started
        yield sessions


def advance(environment: Environment, agent: Agent, sessions: Sequence[Session]) -> list[Session]:
    """One action for every session."""
    observations = environment.observe(sessions)
    with environment.seconds.counting("agent"):
        decided = _decisions(agent, observations)
    failed = {i: action.why for i, (action, _) in enumerate(decided) if isinstance(action, _Failure)}
    good = [i for i in range(len(sessions)) if i not in failed]
    after = iter(environment.step([sessions[i] for i in good], [decided[i][0] for i in good]))  # type: ignore[misc]
    played = [ended(s, "error", failed[i]) if i in failed else next(after) for i, s in enumerate(sessions)]
    return [
        replace(session, cost=session.cost + cost) if cost != NO_COST else session
        for session, (_, cost) in zip(played, decided, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What an agent gave instead of an action."""

    why: str


def _decisions(agent: Agent, observations: Sequence[Observation]) -> list[tuple[Action | _Failure, AgentCost]]:
    """The agent's actions for all; where it fails, one call for each, to find the observation it fails on."""
    try:
        decided: list[tuple[Action | _Failure, AgentCost]] = [*decisions(agent, observations)]
    except Exception as error:
        if len(observations) == 1:
            return [(_Failure(f"the agent raised {type(error).__name__}: {error}"), NO_COST)]
    else:
        if len(decided) == len(observations):
            return decided
        if len(observations) == 1:
            return [(_Failure(f"the agent gave {len(decided)} actions for 1 observation"), NO_COST)]
    return [decision for observation in observations for decision in _decisions(agent, [observation])]
