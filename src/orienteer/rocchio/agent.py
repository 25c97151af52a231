"""Rocchio as an agent: it sees the answers, so its results are the upper bound of the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from orienteer.data.passage import Question
from orienteer.query import Grammar, Refinement
from orienteer.query.refinement import clean
from orienteer.rocchio.config import RocchioConfig, RocchioError, Variant
from orienteer.session import STOP, Action, Environment, Observation, Session, Stop, play
from orienteer.session.observation import step_seed
from orienteer.session.runner import BATCH_SIZE


class RocchioAgent:
    """Plays whole batches (`play`): searches their sessions by Algorithm 1, then takes the steps that it found.

    `recorded`, by question id, are the refinements of sessions that were searched before; a question that is not
    among them is an error.
    """

    def __init__(self, grammar: Grammar, recorded: Mapping[str, Sequence[Refinement]] | None = None) -> None:
        self._grammar, self._recorded = grammar, recorded

    @classmethod
    def from_file(cls, grammar: Grammar, file: str | os.PathLike[str]) -> RocchioAgent:
        """Plays the sessions of a file that `orienteer rocchio` wrote."""
        from orienteer.rocchio.sessions import read_sessions

        _, sessions = read_sessions(file)
        mine = (session for session in sessions if session.variant == Variant(grammar))
        return cls(grammar, {session.id: [step.refinement for step in session.steps] for session in mine})

    def act(self, observations: Sequence[Observation]) -> list[Stop]:
        """Stops: an observation alone does not hold the answers."""
        return [STOP for _ in observations]

    def play(
        self, environment: Environment, questions: Iterable[Question], *, batch_size: int = BATCH_SIZE
    ) -> Iterator[list[Session]]:
        """Batches of ended sessions, in the questions' order."""
        waiting = iter(questions)
        while batch := list(islice(waiting, batch_size)):
            with environment.seconds.counting("agent"), environment.seconds.counting("total"):
                script = _Script(environment, batch, self._refinements(environment, batch))
            yield from play(environment, script, batch, batch_size=len(batch))

    def _refinements(self, environment: Environment, questions: Sequence[Question]) -> list[Sequence[Refinement]]:
        if self._recorded is not None:
            missing = [question.id for question in questions if clean(question.id) not in self._recorded]
            if missing:
                raise RocchioError(f"no recorded {self._grammar.name} session of question {missing[0]!r}; search it")
            return [self._recorded[clean(question.id)] for question in questions]
        from orienteer.rocchio.batched_sessions import rocchio_sessions

        settings = environment.settings
        variant = Variant(self._grammar, settings.lambda1, settings.lambda2)
        config = RocchioConfig(settings=settings, others=0)
        searched = rocchio_sessions(environment.engine, environment.reader, questions, [variant], config)
        return [[step.refinement for step in session.steps] for [session] in searched]


class _Script:
    """An agent that takes given refinements; an observation is known by its seed, its own in every step."""

    def __init__(
        self, environment: Environment, questions: Sequence[Question], refinements: Sequence[Sequence[Refinement]]
    ) -> None:
        seed = environment.settings.seed
        self._next: dict[int, Refinement] = {}
        for question, steps in zip(questions, refinements, strict=True):
            # As `Environment.open` cleans it, in the fields that the seed depends on.
            session = Session(Question(clean(question.id), clean(question.question)))
            for number, refinement in enumerate(steps):
                self._next[step_seed(seed, session, number)] = refinement

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [self._next.get(observation.seed, STOP) for observation in observations]
