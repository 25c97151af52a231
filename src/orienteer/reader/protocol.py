"""The `Reader` protocol: how good a passage is for a question, and which of its words answer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from orienteer.data.passage import Passage


class Reading(NamedTuple):
    """What the reader makes of one passage.

    `score` is PS, the calibrated probability that the passage holds the answer; `logit` is what it was made of;
    `answer` is MR, `passage.text[start:end]`; `span` is the log probability of this place among all places of the text,
    0 where the reader does not tell.
    """

    score: float
    logit: float
    answer: str
    start: int
    end: int
    span: float = 0.0


@runtime_checkable
class Reader(Protocol):
    """A reading depends on its question and its passage alone, never on what else is read with them."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a reading could: part of every cache key."""
        ...

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        """One reading a passage, in their order."""
        ...

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        """`read` for many questions in one call, as sessions in one batch need it."""
        ...
