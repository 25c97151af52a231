"""Training data of the value model: the candidates of an agent's own sessions, and what became of them.

Whether a passage holds the answer is in its text and costs nothing. Its PS costs a reading, so only what the session
read and a few more of the promising candidates have one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from orienteer.agents.action_space import RankedActions
from orienteer.agents.lookahead.candidates import Candidates
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.lookahead.value_model import Float64s
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError, TrainingError
from orienteer.query import Query
from orienteer.session import Environment, Observation, Session
from orienteer.session.relevance import is_relevant

QUESTIONS_PER_FILE = 16  # played in one batch
_TOP = 20
_PROBABILITY, _SCORE = FEATURES.index("probability of what finds it"), FEATURES.index("score for the question")


class LookaheadAgent(Protocol):
    """An agent that ranks refinements and can look ahead; `has_value_model` once that was trained."""

    @property
    def has_value_model(self) -> bool: ...
    def rank(self, observations: Sequence[Observation]) -> Iterable[RankedActions]: ...
    def look_ahead(self, observation: Observation, actions: RankedActions) -> Candidates | None: ...
    def passage_values(self, candidates: Candidates) -> Float64s: ...


@dataclass(frozen=True, slots=True)
class CandidateLabels:
    """The candidates of one state: features [passages, features], which hold the answer, PS where read, else NaN."""

    question_id: str
    features: NDArray[np.float16]
    right: NDArray[np.bool_]
    ps: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """How sessions are played and what is read in them.

    states        of each question
    read_best     candidates read in each state that have the highest values, whether the action finds them or not
    read_plain    the same, of those that the question itself ranks highest
    exploration   share of steps that take any refinement; one and a half times as many take one of the best twenty
    """

    states: int = 4
    read_best: int = 3
    read_plain: int = 2
    exploration: float = 0.2
    seed: int = 0

    @property
    def key(self) -> str:
        """Names the folder of the rollouts; its form is that of the first version, whose folders stay valid."""
        return (
            f"Outing(moments={self.states}, promising={self.read_best}, plain={self.read_plain}, "
            f"random={self.exploration}, seed={self.seed})"
        )


def answerable(engine: Engine, questions: Sequence[Question], depth: int = 100) -> Iterator[Question]:
    """Questions whose answer is somewhere in their first passages: nothing is learned from the others."""
    for question in questions:
        try:
            hits = engine.search(Query(question.question), depth)
        except QueryError:
            continue
        passages = engine.passages([hit.id for hit in hits])
        if any(is_relevant(question, passage) for passage in passages):
            yield question


def collect_rollouts(
    folder: Path,
    environment: Environment,
    agent: LookaheadAgent,
    questions: Sequence[Question],
    config: RolloutConfig,
    show: Callable[[int], None] = lambda done: None,
) -> list[CandidateLabels]:
    """The labelled candidates of all questions, a file per `QUESTIONS_PER_FILE`: a killed run resumes after the last.

    Each file depends on its own questions alone. `show` gets the number of questions done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    collected: list[CandidateLabels] = []
    for start in range(0, len(questions), QUESTIONS_PER_FILE):
        batch = questions[start : start + QUESTIONS_PER_FILE]
        path = folder / f"{start // QUESTIONS_PER_FILE:05}.safetensors"
        if not path.exists():
            generator = np.random.default_rng([config.seed, *batch[0].id.encode()])
            atomic_write(path, save(*_packed(_play(environment, agent, batch, config, generator))))
        collected += _unpacked(path)
        show(start + len(batch))
    return collected


def _packed(states: Sequence[CandidateLabels]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    arrays = {
        "counts": np.array([len(each.right) for each in states], np.int64),
        "features": np.concatenate([np.empty((0, len(FEATURES)), np.float16), *(each.features for each in states)]),
        "right": np.concatenate([np.empty(0, np.bool_), *(each.right for each in states)]),
        "ps": np.concatenate([np.empty(0, np.float32), *(each.ps for each in states)]),
    }
    return arrays, {"questions": json.dumps([each.question_id for each in states])}


def _unpacked(path: Path) -> list[CandidateLabels]:
    try:
        with safe_open(path, "numpy") as file:
            ids = json.loads(file.metadata()["questions"])
            ends = np.cumsum(file.get_tensor("counts"))[:-1]
            parts = (np.split(file.get_tensor(name), ends) for name in ("features", "right", "ps"))
            return [CandidateLabels(*each) for each in zip(ids, *parts, strict=False)]  # np.split of nothing: one part
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TrainingError(f"{path}: damaged rollouts ({error}); delete the file to collect them again") from None


def _play(
    environment: Environment,
    agent: LookaheadAgent,
    questions: Sequence[Question],
    config: RolloutConfig,
    generator: np.random.Generator,
) -> list[CandidateLabels]:
    sessions = environment.open(questions)
    known: dict[str, dict[str, float]] = defaultdict(dict)  # by question, PS of what was read
    states: list[tuple[Question, Candidates, NDArray[np.bool_]]] = []
    for _ in range(config.states):
        ahead = _look_ahead(environment, agent, [session for session in sessions if not session.ended])
        if not ahead:
            break
        values = [_values(agent, candidates) for _, candidates, _ in ahead]
        passages = [environment.engine.passages(candidates.ids) for _, candidates, _ in ahead]
        for (session, candidates, _), texts in zip(ahead, passages, strict=True):
            right = [bool(is_relevant(session.question, passage)) for passage in texts]
            states.append((session.question, candidates, np.array(right, np.bool_)))
        wanted = [
            (session.question, [texts[place] for place in _to_read(candidates, of_passages, config)])
            for (session, candidates, _), texts, of_passages in zip(ahead, passages, values, strict=True)
        ]
        batches = environment.reader.read_many([(question.question, texts) for question, texts in wanted])
        for (question, texts), readings in zip(wanted, batches, strict=True):
            known[question.id].update((p.id, reading.score) for p, reading in zip(texts, readings, strict=True))
        actions = [
            ranked.refinement(_choose(candidates, of_passages, config, generator))
            for (_, candidates, ranked), of_passages in zip(ahead, values, strict=True)
        ]
        sessions = environment.step([session for session, _, _ in ahead], actions)
        for session in sessions:
            known[session.question.id].update((each.passage.id, each.reading.score) for each in session.seen)
    return [
        CandidateLabels(
            question.id, candidates.features.astype(np.float16), right,
            np.array([known[question.id].get(id, np.nan) for id in candidates.ids], np.float32),
        )
        for question, candidates, right in states
    ]  # fmt: skip


def _look_ahead(
    environment: Environment, agent: LookaheadAgent, sessions: Sequence[Session]
) -> list[tuple[Session, Candidates, RankedActions]]:
    """Of the sessions that have unread candidates."""
    observations = environment.observe(sessions)
    ahead = []
    for session, observation, ranked in zip(sessions, observations, agent.rank(observations), strict=True):
        candidates = agent.look_ahead(observation, ranked) if len(ranked) else None
        if candidates is not None and candidates.ids:
            ahead.append((session, candidates, ranked))
    return ahead


def _values(agent: LookaheadAgent, candidates: Candidates) -> Float64s:
    """Before there is a value model: how probable the policy finds what leads to each candidate."""
    if agent.has_value_model:
        return agent.passage_values(candidates)
    return candidates.features[:, _PROBABILITY].astype(np.float64)


def _to_read(candidates: Candidates, values: Float64s, config: RolloutConfig) -> list[int]:
    best, plain = np.argsort(-values, kind="stable"), np.argsort(-candidates.features[:, _SCORE], kind="stable")
    return list(dict.fromkeys([*best[: config.read_best].tolist(), *plain[: config.read_plain].tolist()]))


def _choose(candidates: Candidates, values: Float64s, config: RolloutConfig, generator: np.random.Generator) -> int:
    """The rank of the action: mostly that of the highest value, sometimes another one that finds something new."""
    useful = np.flatnonzero((candidates.hits >= 0).any(1))
    best = useful[np.argsort(-candidates.sum_by_refinement(values)[useful], kind="stable")]
    drawn = generator.random()
    if drawn < config.exploration:
        return int(generator.choice(best))
    return int(generator.choice(best[:_TOP]) if drawn < 2.5 * config.exploration else best[0])
