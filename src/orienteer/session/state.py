"""The state of a session, as immutable data: question, steps, passages seen, the best of them; and its actions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orienteer.data.passage import Passage, Question
from orienteer.engine.protocol import Hit
from orienteer.query import Query, Refinement
from orienteer.reader.protocol import Reading
from orienteer.session.answer_voting import SHIPPED
from orienteer.session.score import K, Score, reward
from orienteer.session.settings import Order


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the session; its best passages are the result."""

    def __str__(self) -> str:
        return "stop"


@dataclass(frozen=True, slots=True)
class Undo:
    """Removes the query's last refinement; passages seen stay seen, and it counts as a step."""

    def __str__(self) -> str:
        return "undo"


@dataclass(frozen=True, slots=True)
class Read:
    """Reads passages that the agent names, at most as many as a query has hits; the query stays as it is."""

    passages: tuple[str, ...]

    def __str__(self) -> str:
        return f"read {json.dumps(list(self.passages), ensure_ascii=False)}"


STOP = Stop()
UNDO = Undo()

Action = Refinement | Read | Stop | Undo


@dataclass(frozen=True, slots=True)
class AgentCost:
    """What an agent computed to decide, beside the session's own queries and readings.

    queries             further queries that the agent sent to the engine itself
    refinements_scored  refinements whose hits it asked the engine for, without searching with them
    passages_scored     unread passages that its value model scored
    fallbacks           how many decisions it made in another way than its own, by kind: "blind", "held"
    """

    queries: int = 0
    refinements_scored: int = 0
    passages_scored: int = 0
    fallbacks: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: AgentCost) -> AgentCost:
        kinds = dict.fromkeys((*self.fallbacks, *other.fallbacks))
        return AgentCost(
            self.queries + other.queries,
            self.refinements_scored + other.refinements_scored,
            self.passages_scored + other.passages_scored,
            {kind: self.fallbacks.get(kind, 0) + other.fallbacks.get(kind, 0) for kind in kinds},
        )


NO_COST = AgentCost()


# stop: the agent stopped; steps: the last step was taken; dead end, no hits: a query, or the question itself, found
# nothing; illegal: an illegal action; error: the agent raised, or the question cannot be searched.
Ending = Literal["stop", "steps", "dead end", "no hits", "illegal", "error"]


@dataclass(frozen=True, slots=True)
class SeenPassage:
    """A passage that a query of the session found, with its reading for q0.

    `relevant` is rel(d | q), None where neither answers nor judgements are known; `exact` is em(d | q), None where no
    answer is known.
    """

    passage: Passage
    reading: Reading
    step: int
    rank: int
    relevant: bool | None = None
    exact: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An action, the query after it, its hits, and how the best passages changed; step 0 is the question itself.

    After `Read`, `hits` are the passages that it names, with score 0. `best` are the session's best passages after the
    step, `entered` and `left` the difference to the step before.
    """

    number: int
    action: Refinement | Read | Undo | None
    query: Query
    hits: tuple[Hit, ...]
    best: tuple[str, ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]
    score: Score | None

    @property
    def dead_end(self) -> bool:
        return not self.hits


@dataclass(frozen=True, slots=True)
class Session:
    """A search session; `ended` is None while it is in progress."""

    question: Question
    steps: tuple[Step, ...] = ()
    seen: tuple[SeenPassage, ...] = ()
    best: tuple[SeenPassage, ...] = ()
    ended: Ending | None = None
    error: str = ""
    cost: AgentCost = NO_COST

    @property
    def current(self) -> Step | None:
        """The step of the current query: the last one with hits, since a query without hits is undone."""
        return next((step for step in reversed(self.steps) if step.hits and not isinstance(step.action, Read)), None)

    @property
    def query(self) -> Query:
        """q_t: the current query; empty where the question could not be searched."""
        step = self.current or (self.steps[0] if self.steps else None)
        return step.query if step else Query("")

    @property
    def refinements_made(self) -> int:
        """How many steps followed the question, dead ends and undone ones included."""
        return max(0, len(self.steps) - 1)

    @property
    def queries(self) -> int:
        """Number of queries sent to the engine, those of the agent itself included."""
        return sum(not isinstance(step.action, Read | Undo) for step in self.steps) + self.cost.queries

    @property
    def passages_read(self) -> int:
        """Distinct passages read, cached readings included."""
        return len(self.seen)

    @property
    def score(self) -> Score | None:
        """S of the best passages now; None where no answer is known."""
        return self.steps[-1].score if self.steps else None

    @property
    def reward(self) -> float | None:
        """S now minus S of q0's own results: the sum of the steps' rewards."""
        first, last = (self.steps[0].score, self.steps[-1].score) if self.steps else (None, None)
        return None if first is None or last is None else reward(last, first)

    @property
    def answer(self) -> str:
        """The reader's answer from the best passage; empty where nothing was found."""
        return self.best[0].reading.answer if self.best else ""

    def _repr_html_(self) -> str:
        from orienteer.session.display import session_html

        return session_html(self)


def best_of(seen: Iterable[SeenPassage], order: Order = "ps", k: int = K) -> tuple[SeenPassage, ...]:
    """The best k of all distinct passages seen: by PS, by agreement, or as first seen; ties as first seen."""
    ranked = list(seen)
    if order == "ps":
        ranked.sort(key=lambda each: -each.reading.score)
    elif order == "agreement" and ranked:
        ranked = [ranked[place] for place in SHIPPED.order(ranked, k)]
    return tuple(ranked[:k])


def changes(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which ids entered and which left, each in its list's order."""
    entered = tuple(each for each in after if each not in before)
    return entered, tuple(each for each in before if each not in after)
