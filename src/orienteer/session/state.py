"""A session as data: the question, the steps, every passage seen, the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orienteer.data.passage import Passage, Question
from orienteer.engine.protocol import Hit
from orienteer.query import Query, Refinement
from orienteer.reader.protocol import Reading
from orienteer.session import answer_voting as agreement
from orienteer.session.actions import Undo
from orienteer.session.score import K, Score, reward
from orienteer.session.settings import Order

# stop: the agent stopped; steps: the last step was taken; dead end, no hits: a query, or the question itself, found
# nothing; illegal: an action that is none here; error: the agent raised, or the question cannot be asked.
Ending = Literal["stop", "steps", "dead end", "no hits", "illegal", "error"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A passage that some query of the session found, and how it reads for q0.

    `relevant` is rel(d | q), `exact` is em(d | q); both None where no answer is known.
    """

    passage: Passage
    reading: Reading
    step: int
    rank: int
    relevant: bool | None = None
    exact: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, what was asked, what came, and what it changed; step 0 asks the question itself.

    `best` are the session's best passages after the step, `entered` and `left` what differs from before.
    """

    number: int
    action: Refinement | Undo | None
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
    """A search in progress or at its end; `ended` is None while it goes on."""

    question: Question
    steps: tuple[Step, ...] = ()
    seen: tuple[Seen, ...] = ()
    best: tuple[Seen, ...] = ()
    ended: Ending | None = None
    error: str = ""

    @property
    def current(self) -> Step | None:
        """The step whose query is in force: the last one with hits, since a dead end is taken back."""
        return next((step for step in reversed(self.steps) if step.hits), None)

    @property
    def query(self) -> Query:
        """q_t: the query in force; empty where the question could not be asked."""
        step = self.current or (self.steps[0] if self.steps else None)
        return step.query if step else Query("")

    @property
    def refinements_made(self) -> int:
        """How many steps followed the question, dead ends and undone ones included."""
        return max(0, len(self.steps) - 1)

    @property
    def queries(self) -> int:
        """How often the engine was asked."""
        return sum(not isinstance(step.action, Undo) for step in self.steps)

    @property
    def passages_read(self) -> int:
        """Distinct passages read; one that a cache already knew counts too."""
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
        from orienteer.session.notebook import session_html

        return session_html(self)


def best_of(seen: Iterable[Seen], order: Order = "ps", k: int = K) -> tuple[Seen, ...]:
    """The best k of all distinct passages seen: by PS, by agreement, or as first seen; ties as first seen."""
    ranked = list(seen)
    if order == "ps":
        ranked.sort(key=lambda each: -each.reading.score)
    elif order == "agreement" and ranked:
        ranked = [ranked[place] for place in agreement.SHIPPED.order(ranked, k)]
    return tuple(ranked[:k])


def changes(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which ids entered and which left, each in its list's order."""
    entered = tuple(each for each in after if each not in before)
    return entered, tuple(each for each in before if each not in after)
