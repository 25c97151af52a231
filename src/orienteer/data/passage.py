"""`Passage` and `Question`: what is searched, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """What the `contents` field indexes: the title, a newline, the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers; `passage_id` and `answer_start` where the gold passage is known."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    source: str = ""
    passage_id: str | None = None
    answer_start: int | None = None
