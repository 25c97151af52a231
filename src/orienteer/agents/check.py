"""The Agent contract made executable: `check_agent` plays ordinary and hard states and says what broke."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orienteer.data.passage import Question
from orienteer.errors import OrienteerError
from orienteer.session import Action, Agent, Environment, Observation, Session, Stop, run_sessions

_STATES = 40  # observations kept of the sessions played


class AgentContractError(OrienteerError):
    """An agent that breaks a promise of the `Agent` protocol."""

    def __init__(self, promise: str, asked: str, came: object, expected: object):
        self.promise, self.asked = promise, asked
        super().__init__(
            f"the agent breaks a promise: {promise}\n"
            f"  asked:    {asked}\n  came:     {_shown(came)}\n  expected: {_shown(expected)}"
        )


def check_agent(agent: Agent, environment: Environment, questions: Sequence[Question]) -> None:
    """Raise `AgentContractError` for the first promise that the agent breaks.

    A handful of questions will do; they are played to the end with the environment's settings.
    """
    if not isinstance(agent, Agent):
        raise AgentContractError(
            "An agent has the method act.", f"the methods of {type(agent).__name__}", "no act", "act(observations)"
        )
    probe = _Probe(agent, environment, questions)
    for promise in _PROMISES:
        probe.promise = " ".join((promise.__doc__ or promise.__name__).split())
        try:
            promise(probe)
        except AgentContractError:
            raise
        except Exception as error:
            came = f"{type(error).__name__}: {error}"
            raise AgentContractError(probe.promise, probe.asked, came, "actions") from error


class _Probe:
    """An agent under examination, the states it is asked about, and what it was last asked."""

    def __init__(self, agent: Agent, environment: Environment, questions: Sequence[Question]):
        self.agent, self.environment, self.questions = agent, environment, questions
        self.promise = self.asked = ""
        self.sessions: list[Session] = []
        self.observations: list[Observation] = []

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        shown = observations[0].question if len(observations) == 1 else f"{len(observations)} observations"
        self.asked = f"act({shown!r})"
        return list(self.agent.act(observations))

    def fail(self, came: object, expected: object) -> None:
        raise AgentContractError(self.promise, self.asked, came, expected)


def _no_observations(probe: _Probe) -> None:
    """No observations, no actions."""
    if (came := probe.act([])) != []:
        probe.fail(came, [])


def _one_each(probe: _Probe) -> None:
    """There is one action for each observation."""
    sessions = probe.environment.open(probe.questions)
    while len(probe.observations) < _STATES:
        sessions = [session for session in sessions if not session.ended]
        if not sessions:
            break
        observations = probe.environment.observe(sessions)
        actions = probe.act(observations)
        if len(actions) != len(observations):
            probe.fail(f"{len(actions)} actions", f"{len(observations)} actions")
        probe.sessions += sessions
        probe.observations += observations
        sessions = probe.environment.step(sessions, actions)


def _legal(probe: _Probe) -> None:
    """Every action is a refinement with a term not used before, UNDO with something to take back, or STOP."""
    for session, observation in zip(probe.sessions, probe.observations, strict=True):
        [action] = probe.act([observation])
        if (why := probe.environment.objection(session, action)) is not None:
            probe.fail(why, "a legal action")


def _same_again(probe: _Probe) -> None:
    """An action depends on its observation alone: it is the same again, by itself, and in another order."""
    together = probe.act(probe.observations)
    for name, actions in (
        ("again", probe.act(probe.observations)),
        ("in reverse", probe.act(probe.observations[::-1])[::-1]),
        ("alone", [action for observation in probe.observations for action in probe.act([observation])]),
    ):
        for observation, was, now in zip(probe.observations, together, actions, strict=True):
            if was != now:
                probe.asked = f"act({observation.question!r}, step {observation.step}) {name}"
                probe.fail(now, was)


def _stops_when_it_may(probe: _Probe) -> None:
    """An agent does not stop while it may not and the last hits hold a new term to refine with."""
    analyse = probe.environment.lexicon.terms
    for observation in probe.observations:
        hit_words = {word for passage in observation.hits for word in analyse(passage.contents)}
        terms = [t.text for t in observation.terms if t.text in hit_words and "question" not in t.sources]
        [action] = probe.act([observation])
        if terms and not observation.may_stop and isinstance(action, Stop):
            probe.fail(action, f"a refinement, for example with {terms[:3]}")


def _nothing_found(probe: _Probe) -> None:
    """An observation without passages or terms has an action too."""
    for question in ("", "the", "什么是指南针", "x" * 300):
        bare = Observation(question, (), (), (), (), {}, frozenset(), 0, 1, False, 0)
        if len(actions := probe.act([bare])) != 1:
            probe.fail(actions, "one action")


def _whole_sessions(probe: _Probe) -> None:
    """Sessions come to their end without a failure."""
    probe.asked = f"{len(probe.questions)} sessions of {probe.environment.settings.steps} steps"
    for session in run_sessions(probe.environment, probe.agent, probe.questions).sessions:
        if session.ended in ("illegal", "error"):
            probe.fail(f"{session.question.question!r}: {session.error}", "a session without an error")


_PROMISES: tuple[Callable[[_Probe], None], ...] = (
    _no_observations, _one_each, _legal, _same_again, _stops_when_it_may, _nothing_found, _whole_sessions,
)  # fmt: skip


def _shown(value: object, length: int = 300) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= length else text[:length] + "…"
