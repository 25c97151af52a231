"""Lessons in looking: passages that were within sight of a pointer's own sessions, and what became of them.

Whether a passage holds the answer stands in its text and costs nothing; its PS costs a reading, so only what the
session read and a few more of the promising ones have one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from orienteer.agents.lookahead.candidates import Sight
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.pointer.decoding import Choices
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError, TrainingError
from orienteer.query import Query
from orienteer.reader.answer_matching import holds_answer
from orienteer.session import Environment, Session

TOGETHER = 16  # questions in lock-step
_SOME = 20
_LIKELY, _SCORE = FEATURES.index("probability of what finds it"), FEATURES.index("score for the question")


@dataclass(frozen=True, slots=True)
class Lesson:
    """One moment: features [passages, features], which of them hold the answer, PS where read, else NaN."""

    question_id: str
    features: NDArray[np.float16]
    right: NDArray[np.bool_]
    ps: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Outing:
    """How a pointer goes out to learn.

    moments    of each question
    promising  passages read at each that promise most, whether the step taken finds them or not
    plain      the same, of those that the question itself ranks highest
    random     share of steps that take any refinement; one and a half times as many take one of the best twenty
    """

    moments: int = 4
    promising: int = 3
    plain: int = 2
    random: float = 0.2
    seed: int = 0


def reachable(engine: Engine, questions: Sequence[Question], depth: int = 100) -> Iterator[Question]:
    """Questions whose answer stands somewhere among their first passages: from the others nothing is learned."""
    for question in questions:
        try:
            hits = engine.search(Query(question.question), depth)
        except QueryError:
            continue
        passages = engine.passages([hit.id for hit in hits])
        if any(holds_answer(passage.text, question.answers) for passage in passages):
            yield question


def gathered(
    folder: Path,
    environment: Environment,
    agent: PointerAgent,
    questions: Sequence[Question],
    outing: Outing,
    show: Callable[[int], None] = lambda done: None,
) -> list[Lesson]:
    """The lessons of all questions, a file for every `TOGETHER` of them: a killed run goes on after the last one.

    Each depends on its own questions alone. `show` is told how many questions are done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Lesson] = []
    for start in range(0, len(questions), TOGETHER):
        batch = questions[start : start + TOGETHER]
        path = folder / f"{start // TOGETHER:05}.safetensors"
        if not path.exists():
            generator = np.random.default_rng([outing.seed, *batch[0].id.encode()])
            atomic_write(path, save(*_packed(_together(environment, agent, batch, outing, generator))))
        found += _unpacked(path)
        show(start + len(batch))
    return found


def _packed(taught: Sequence[Lesson]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    arrays = {
        "counts": np.array([len(each.right) for each in taught], np.int64),
        "features": np.concatenate([np.empty((0, len(FEATURES)), np.float16), *(each.features for each in taught)]),
        "right": np.concatenate([np.empty(0, np.bool_), *(each.right for each in taught)]),
        "ps": np.concatenate([np.empty(0, np.float32), *(each.ps for each in taught)]),
    }
    return arrays, {"questions": json.dumps([each.question_id for each in taught])}


def _unpacked(path: Path) -> list[Lesson]:
    try:
        with safe_open(path, "numpy") as file:
            ids = json.loads(file.metadata()["questions"])
            ends = np.cumsum(file.get_tensor("counts"))[:-1]
            parts = (np.split(file.get_tensor(name), ends) for name in ("features", "right", "ps"))
            return [Lesson(*each) for each in zip(ids, *parts, strict=False)]  # np.split of nothing gives one part
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TrainingError(f"{path}: damaged lessons ({error}); delete the file to gather them again") from None


def _together(
    environment: Environment,
    agent: PointerAgent,
    questions: Sequence[Question],
    outing: Outing,
    generator: np.random.Generator,
) -> list[Lesson]:
    sessions = environment.open(questions)
    known: dict[str, dict[str, float]] = defaultdict(dict)  # by question, PS of what was read
    moments: list[tuple[Question, Sight, NDArray[np.bool_]]] = []
    for _ in range(outing.moments):
        sights = _sights(environment, agent, [session for session in sessions if not session.ended])
        if not sights:
            break
        values = [agent.values(s) if agent.looks else s.features[:, _LIKELY].astype(np.float64) for _, s, _ in sights]
        passages = [environment.engine.passages(sight.ids) for _, sight, _ in sights]
        for (session, sight, _), texts in zip(sights, passages, strict=True):
            right = [holds_answer(passage.text, session.question.answers) for passage in texts]
            moments.append((session.question, sight, np.array(right, np.bool_)))
        wanted = [
            (session.question, [texts[place] for place in _worth_reading(sight, own, outing)])
            for (session, sight, _), texts, own in zip(sights, passages, values, strict=True)
        ]
        readings = environment.reader.read_many([(question.question, texts) for question, texts in wanted])
        for (question, texts), told in zip(wanted, readings, strict=True):
            known[question.id].update((p.id, reading.score) for p, reading in zip(texts, told, strict=True))
        actions = [
            found.refinement(_rank(sight, own, outing, generator))
            for (_, sight, found), own in zip(sights, values, strict=True)
        ]
        sessions = environment.step([session for session, _, _ in sights], actions)
        for session in sessions:
            known[session.question.id].update((each.passage.id, each.reading.score) for each in session.seen)
    return [
        Lesson(
            question.id, sight.features.astype(np.float16), right,
            np.array([known[question.id].get(id, np.nan) for id in sight.ids], np.float32),
        )
        for question, sight, right in moments
    ]  # fmt: skip


def _sights(
    environment: Environment, agent: PointerAgent, sessions: Sequence[Session]
) -> list[tuple[Session, Sight, Choices]]:
    """Of the sessions that see something new."""
    observations = environment.observe(sessions)
    views = [agent.view(observation) for observation in observations]
    found = []
    for session, observation, view, scores in zip(sessions, observations, views, agent.scores(views), strict=True):
        choices = agent.choices(view, scores)
        sight = agent.look(observation, choices) if len(choices) else None
        if sight is not None and sight.ids:
            found.append((session, sight, choices))
    return found


def _worth_reading(sight: Sight, values: NDArray[np.float64], outing: Outing) -> list[int]:
    promising, plain = np.argsort(-values, kind="stable"), np.argsort(-sight.features[:, _SCORE], kind="stable")
    return list(dict.fromkeys([*promising[: outing.promising].tolist(), *plain[: outing.plain].tolist()]))


def _rank(sight: Sight, values: NDArray[np.float64], outing: Outing, generator: np.random.Generator) -> int:
    """Mostly the most promising refinement, now and then another one that finds something new."""
    hopeful = np.flatnonzero((sight.found >= 0).any(1))
    best = hopeful[np.argsort(-sight.of_candidates(values)[hopeful], kind="stable")]
    drawn = generator.random()
    if drawn < outing.random:
        return int(generator.choice(best))
    return int(generator.choice(best[:_SOME]) if drawn < 2.5 * outing.random else best[0])
