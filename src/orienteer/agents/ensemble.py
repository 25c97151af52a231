"""The ensemble: each agent searches by itself, and the result is the best of all passages that any of them found.

ensemble(pointer|copynet-G1)                       the union, ranked by PS or in the order of its settings
ensemble(pointer[steps=10]|copynet-G1[steps=10])   each with fewer steps
ensemble@60(pointer|copynet-G1)                    each stops once it has read 60 passages
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.session import (
    NO_COST,
    STOP,
    Action,
    Environment,
    Observation,
    SeenPassage,
    Session,
    Settings,
    Step,
    best_of,
    play,
)
from orienteer.session.relevance import score_of
from orienteer.session.runner import BATCH_SIZE
from orienteer.session.state import Ending, changes

Make = Callable[[str, Engine, Settings], ConfiguredAgent]

# The shipped agents, which the bare name joins.
SHIPPED = ("pointer", "muzero", "copynet-G1")


class Ensemble:
    """Agents that search each by itself (`play`); where a session goes step by step, they take turns (`act`)."""

    def __init__(self, members: Sequence[ConfiguredAgent], budget: int | None = None) -> None:
        if not members:
            raise AgentNameError("an ensemble of no agents; name some: ensemble(a|b)")
        if budget is not None and budget < 1:
            raise AgentNameError(f"an ensemble whose agents read {budget} passages; expected 1 or more")
        self.members, self.budget = tuple(members), budget

    @property
    def fingerprint(self) -> str:
        """Those of its members' weights and own engines; empty where none has any."""
        parts = (part for member in self.members for part in (member.agent, member.engine))
        return "|".join(filter(None, map(fingerprint_of, parts)))

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        actions: list[Action] = [STOP] * len(observations)
        for turn, member in enumerate(self.members):
            places = [i for i, each in enumerate(observations) if each.step % len(self.members) == turn]
            for place, action in zip(places, member.agent.act([observations[i] for i in places]), strict=True):
                actions[place] = action
        return actions

    def play(
        self, environment: Environment, questions: Iterable[Question], *, batch_size: int = BATCH_SIZE
    ) -> Iterator[list[Session]]:
        """Batches of united sessions, in the questions' order.

        `environment` gives engine, reader and judgement; each member plays with its own settings.
        """
        waiting = iter(questions)
        while batch := list(islice(waiting, batch_size)):
            rows = [self._sessions(environment, member, batch) for member in self.members]
            yield [unite(sessions, environment.settings) for sessions in zip(*rows, strict=True)]

    def _sessions(self, environment: Environment, member: ConfiguredAgent, batch: Sequence[Question]) -> list[Session]:
        judged = environment.settings
        settings = replace(
            member.settings, lambda1=judged.lambda1, lambda2=judged.lambda2, relevance=judged.relevance, order="ps",
            steps=min(member.settings.steps, judged.steps),
        )  # fmt: skip
        engine = member.engine or environment.engine
        alone = Environment(engine, environment.reader, settings, budget=self.budget)
        alone.seconds = environment.seconds
        if member.engine is None:
            alone.lexicon = environment.lexicon
        [sessions] = play(alone, member.agent, batch, batch_size=len(batch))
        return sessions


def unite(sessions: Sequence[Session], settings: Settings) -> Session:
    """One session with the steps of all, by turns, and every passage that any of them saw, in the settings' order.

    Each step keeps its own query. The question itself is asked once, or again where a member got other hits for it.
    """
    question = sessions[0].question
    together = Session(question)
    for steps in zip_longest(*(_told(session) for session in sessions)):
        for told in filter(None, steps):
            if told.step.action is None and any(each.hits == told.step.hits for each in together.steps):
                continue
            together = _extended(together, told, settings)
    ended, error = _ending(sessions)
    return replace(together, ended=ended, error=error, cost=sum((each.cost for each in sessions), NO_COST))


@dataclass(frozen=True, slots=True)
class _Told:
    """A member's step, and the passages that it was the first of the member's to see."""

    step: Step
    new: tuple[SeenPassage, ...]


def _told(session: Session) -> list[_Told]:
    return [_Told(step, tuple(e for e in session.seen if e.step == step.number)) for step in session.steps]


def _extended(session: Session, told: _Told, settings: Settings) -> Session:
    number = len(session.steps)
    known = {each.passage.id for each in session.seen}
    fresh = tuple(replace(each, step=number) for each in told.new if each.passage.id not in known)
    seen = session.seen + fresh
    best = best_of(seen, settings.order)
    ids = tuple(each.passage.id for each in best)
    entered, left = changes([each.passage.id for each in session.best], ids)
    judged = score_of(session.question, best, settings)
    step = replace(told.step, number=number, best=ids, entered=entered, left=left, score=judged)
    return replace(session, steps=(*session.steps, step), seen=seen, best=best)


def _ending(sessions: Sequence[Session]) -> tuple[Ending | None, str]:
    """A member's failure is the ensemble's, though what was found counts; else as the last member ended."""
    for session in sessions:
        if session.ended in ("error", "illegal"):
            return session.ended, session.error
    return sessions[-1].ended, ""


def members_of(text: str) -> list[str]:
    """The names between the bars; a bar inside brackets or parentheses belongs to a member."""
    names, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "|" and depth == 0:
            names.append(text[start:place].strip())
            start = place + 1
    names.append(text[start:].strip())
    return names


def is_whole(name: str) -> bool:
    """Whether a name is that of an ensemble up to its last parenthesis."""
    return name.startswith("ensemble") and name.endswith(")")


def spec(make: Make) -> AgentSpec:
    """The ensembles' names; `make` is the registry's own, since a member is any agent."""

    def ensemble(request: AgentRequest) -> ConfiguredAgent:
        given, budget = request.options["members"], request.options["budget"]
        names = list(SHIPPED) if given is None else members_of(given) if isinstance(given, str) else list(given)
        if "" in names:
            raise AgentNameError(f"the agent {request.name!r}: a member without a name; write ensemble(a|b)")
        members = [make(name, request.engine, request.settings) for name in names]
        joined = Ensemble(members, None if budget is None else int(budget))
        # Room for every member's steps, and for asking the question in its own way.
        steps = sum(member.settings.steps for member in members) + len(members) - 1
        return ConfiguredAgent(request.name, joined, replace(request.settings, steps=steps))

    return AgentSpec(
        "ensemble, ensemble(A|B), ensemble@N(A|B)",
        "the best five of all passages that any of the agents finds; with @N each stops once it has read N",
        "reader, what its agents need",
        re.compile(r"ensemble(?:@(?P<budget>[0-9]{1,6}))?(?:\((?P<members>.*)\))?"),
        ensemble,
        (),
    )
