"""DAgger: labels for states that the agent itself reaches, so that it learns to recover from its own mistakes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orienteer.agents.imitation import BackendLoader, Label, LabelledState, WeakLabeller, label
from orienteer.agents.pointer import dataset
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.pointer.dataset import Example
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import Grammar
from orienteer.reader.cache import CachedReader
from orienteer.reader.protocol import Reader
from orienteer.rocchio.batched_sessions import BatchedSearch, Choice
from orienteer.rocchio.config import RocchioConfig, Variant
from orienteer.session import Agent, Environment, Observation, Session, Settings

QUESTIONS_PER_BATCH = 32


@dataclass(frozen=True, slots=True)
class Visits:
    """Which states of the agent's sessions are labelled.

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
        taken = environment.step([sessions[place] for place in places], list(actions))
        for place, session in zip(places, taken, strict=True):
            sessions[place] = session
            if not session.ended:
                reached[place].append(session)
    generator = random.Random(f"{visits.seed} {questions[0].id if questions else ''}")
    return [
        session
        for states in reached
        for session in sorted(
            generator.sample(states, min(visits.states, len(states))), key=lambda s: s.refinements_made
        )
    ]


@dataclass(frozen=True, slots=True)
class Round:
    """A round: how many questions are played, which states are labelled, and by which labeller."""

    questions: int
    visits: Visits
    labeller: str
    threads: int = 0


Labeller = Callable[[Sequence[Session], Sequence[Observation]], Sequence[Label | None]]


def dagger_batches(
    environment: Environment, agent: Agent, questions: Sequence[Question], visits: Visits, labeller: Labeller
) -> Callable[[int], Iterator[list[LabelledState]]]:
    """Batches of labelled states for `dataset.build`; each depends on its own questions alone."""

    def batches(done: int) -> Iterator[list[LabelledState]]:
        for start in range(done * QUESTIONS_PER_BATCH, len(questions), QUESTIONS_PER_BATCH):
            sessions = visited(environment, agent, questions[start : start + QUESTIONS_PER_BATCH], visits)
            observations = environment.observe(sessions)
            labelled = zip(sessions, observations, labeller(sessions, observations), strict=True)
            yield [
                LabelledState(session.question.id, observation, (label,))
                for session, observation, label in labelled
                if label is not None
            ]

    return batches


def visited_examples(
    folder: Path,
    number: int,
    pointer: Path,
    load: BackendLoader,
    questions: Sequence[Question],
    round: Round,
    show: Callable[[int], None] = lambda done: None,
) -> list[Example]:
    """The examples of a round, 1 being the first: states that the pointer of the round before reaches.

    They are kept in a subfolder of `folder`; `show` gets the number of questions done.
    """
    engine, reader = load()
    agent = PointerAgent.from_pretrained(pointer, engine, threads=round.threads)
    start = (number - 1) * round.questions % len(questions)  # another part of them each round
    played = [*questions[start:], *questions[:start]][: round.questions]
    visits = replace(round.visits, seed=round.visits.seed + number)
    name = dataset.key(agent.fingerprint, "\n".join(question.id for question in played), str((visits, round.labeller)))
    settings = Settings(steps=visits.steps, snippet=agent.layout.snippet)
    labeller = LABELLERS[round.labeller](engine, reader, agent.grammar, settings)
    batches = dagger_batches(Environment(engine, reader, settings), agent, played, visits, labeller)
    target = folder / f"dagger-{number}-{name}"
    dataset.build(
        target, batches, lambda: agent.featurize, lambda done: show(min(len(played), done * QUESTIONS_PER_BATCH))
    )
    return list(dataset.read(target))


class RocchioLabels:
    """Labels as recorded sessions have them: exact gains, for some hundred passages read per state."""

    def __init__(self, engine: Engine, reader: Reader, grammar: Grammar, config: RocchioConfig) -> None:
        cached = reader if isinstance(reader, CachedReader) else CachedReader(reader)
        self._grammar, self._rocchio = grammar, BatchedSearch(engine, cached, [Variant(grammar)], config)

    def __call__(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Label | None]:
        choices = zip(sessions, self._rocchio.choose(sessions), strict=True)
        return [None if choice is None else self._label(session, choice) for session, choice in choices]

    def _label(self, session: Session, choice: Choice) -> Label:
        assert session.score is not None
        return label(self._grammar, session.score.total, choice.chosen, choice.others)


class WeakLabels:
    """Labels from the texts of what refinements would find; nothing is read."""

    def __init__(self, engine: Engine, grammar: Grammar) -> None:
        self._grammar, self._labeller = grammar, WeakLabeller(engine)

    def __call__(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Label | None]:
        pairs = zip(sessions, observations, strict=True)
        labelled = self._labeller([(session.question, seen, [self._grammar]) for session, seen in pairs])
        return [labels[0] if labels else None for labels in labelled]


LABELLERS: Mapping[str, Callable[[Engine, Reader, Grammar, Settings], Labeller]] = {
    "promise": lambda engine, reader, grammar, settings: WeakLabels(engine, grammar),
    "rocchio": lambda engine, reader, grammar, settings: RocchioLabels(
        engine, reader, grammar, RocchioConfig(settings=settings, read_budget=200)
    ),
}
