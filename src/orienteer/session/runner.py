"""Sessions in lock-step: at every step the engine, the reader and the agent each get one call for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

from orienteer.data.passage import Question
from orienteer.session.actions import Action
from orienteer.session.agent import Agent
from orienteer.session.environment import Environment, Seconds, ended
from orienteer.session.observation import Observation
from orienteer.session.state import Session

TOGETHER = 256  # sessions in one batch: enough for full batches of passages, and some tens of megabytes


@dataclass(frozen=True, slots=True)
class Run:
    """Sessions that an agent played, in the questions' order, and where the time went."""

    sessions: tuple[Session, ...]
    seconds: Seconds

    @property
    def queries(self) -> int:
        return sum(session.queries for session in self.sessions)

    @property
    def passages_read(self) -> int:
        return sum(session.passages_read for session in self.sessions)


def run_sessions(
    environment: Environment, agent: Agent, questions: Iterable[Question], *, together: int = TOGETHER
) -> Run:
    """All questions, `together` at a time."""
    environment.seconds = seconds = Seconds()
    sessions = [session for batch in play(environment, agent, questions, together=together) for session in batch]
    return Run(tuple(sessions), seconds)


def play(
    environment: Environment, agent: Agent, questions: Iterable[Question], *, together: int = TOGETHER
) -> Iterator[list[Session]]:
    """Batches of ended sessions, in the questions' order, each as soon as it is done.

    An agent that raises, gives an illegal action or the wrong number of actions harms only the session concerned,
    which ends there with what it has found and says why. An agent that is several, an ensemble, plays itself.
    """
    own = getattr(agent, "play", None)
    if own is not None:
        yield from own(environment, questions, together=together)
        return
    waiting = iter(questions)
    while batch := list(islice(waiting, together)):
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
        actions = _actions(agent, observations)
    failed = {i: action.why for i, action in enumerate(actions) if isinstance(action, _Failure)}
    good = [i for i in range(len(sessions)) if i not in failed]
    taken = iter(environment.take([sessions[i] for i in good], [actions[i] for i in good]))  # type: ignore[misc]
    return [ended(s, "error", failed[i]) if i in failed else next(taken) for i, s in enumerate(sessions)]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What an agent gave instead of an action."""

    why: str


def _actions(agent: Agent, observations: Sequence[Observation]) -> list[Action | _Failure]:
    """The agent's actions for all; where it fails, for each alone, to know which observation it cannot stand."""
    try:
        actions: list[Action | _Failure] = list(agent.act(observations))
    except Exception as error:
        if len(observations) == 1:
            return [_Failure(f"the agent raised {type(error).__name__}: {error}")]
    else:
        if len(actions) == len(observations):
            return actions
        if len(observations) == 1:
            return [_Failure(f"the agent gave {len(actions)} actions for 1 observation")]
    return [action for observation in observations for action in _actions(agent, [observation])]
