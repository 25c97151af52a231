"""What Rocchio would have done at a moment: the refinements that raise the score, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import TrainingError
from orienteer.query import GRAMMARS, Grammar, Refinement
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.rocchio.sessions import Header, RocchioSession
from orienteer.session import Observation

LEAST_GAIN = 1e-6  # files of sessions round scores to as much
TOGETHER = 64  # sessions; those of one question stand together, so that their common moments are met


@dataclass(frozen=True, slots=True)
class Label:
    """The improving refinements of one grammar with their gains; none where an agent should stop."""

    grammar: Grammar
    gains: tuple[tuple[Refinement, float], ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """An observation, and what Rocchio says of it under one or more grammars."""

    question_id: str
    observation: Observation
    labels: tuple[Label, ...]


def label(
    grammar: Grammar,
    before: float,
    chosen: tuple[Refinement, float] | None,
    others: Iterable[tuple[Refinement, float]] = (),
) -> Label:
    """From the scores that the chosen refinement and the others lead to; `before` is the score without any."""
    if chosen is None:
        return Label(grammar, ())
    reached = [chosen, *others]
    gains = tuple((refinement, score - before) for refinement, score in reached if score - before > LEAST_GAIN)
    return Label(grammar, gains or ((chosen[0], LEAST_GAIN),))


def moments(
    header: Header,
    sessions: Iterable[RocchioSession],
    questions: Mapping[str, Question],
    engine: Engine,
    reader: Reader,
    *,
    snippet: int,
) -> Iterator[list[Moment]]:
    """The moments of recorded sessions, a list for each batch of `TOGETHER` sessions; `questions` are by id.

    Sessions of one question under several grammars begin alike: a moment that they share is made once, with a label
    for each.
    """
    from orienteer.rocchio.replay import training_steps

    waiting = iter(sessions)
    while batch := list(islice(waiting, TOGETHER)):
        asked = [question for id in dict.fromkeys(s.id for s in batch) if (question := questions.get(id))]
        found: dict[object, Moment] = {}
        rebuilt = training_steps(header, batch, asked, engine, reader, snippet=snippet)
        for session, steps in zip(batch, rebuilt, strict=True):
            assert session.start is not None or not steps
            states = [session.start, *(step.state for step in session.steps)]
            for step, state in zip(steps, states, strict=False):
                assert state is not None
                chosen = None if step.refinement is None else (step.refinement, step.score)
                made = label(session.variant.grammar, state.score.total, chosen, step.others)
                key = (session.id, step.observation.refinements, step.observation.used)
                old = found.get(key)
                labels = (*old.labels, made) if old else (made,)
                found[key] = Moment(session.id, step.observation, labels)
        yield list(found.values())


def by_id(questions: Iterable[Question]) -> dict[str, Question]:
    """Questions by their id, as sessions name them."""
    return {clean(question.id): question for question in questions}


def grammars_of(names: str) -> tuple[Grammar, ...]:
    """The grammars of "G1", "G1,G4" or "all"."""
    wanted = list(GRAMMARS) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in GRAMMARS:
            raise TrainingError(f"no grammar is called {name!r}; expected {', '.join(GRAMMARS)}, or all")
    return tuple(GRAMMARS[name] for name in dict.fromkeys(wanted))
