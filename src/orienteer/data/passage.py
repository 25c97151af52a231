"""`Passage` and `Question`: what is searched, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Passage:
    """`metadata`: what else is known of it; a passage of a document has its `file`, `page`, `section` and span."""

    id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def contents(self) -> str:
        """What the `contents` field indexes: the title, a newline, the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def source(self) -> str:
        """Where it stands, for people: `manual.pdf, pages 3–4`; empty for a passage that is of no document."""
        known = self.metadata
        if not (file := known.get("file")):
            return ""
        place = known.get("section", "")
        if "page" in known:
            place = f"pages {known['page']}–{known['last_page']}" if "last_page" in known else f"page {known['page']}"
        return f"{file}, {place}" if place else str(file)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers; `passage_id` and `answer_start` where the gold passage is known.

    `judgements`: passage ids with their grades, above 0 where relevant, as qrels give them. Where there are any, they
    decide which passages are relevant; else a passage is relevant whose text holds an answer.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    source: str = ""
    passage_id: str | None = None
    answer_start: int | None = None
    judgements: tuple[tuple[str, int], ...] = ()

    @property
    def grades(self) -> dict[str, int]:
        """Passage id → grade, of the relevant passages."""
        return {passage: grade for passage, grade in self.judgements if grade > 0}

    @property
    def identity(self) -> list[Any]:
        """What its results depend on, as JSON: the same list, the same question."""
        judged = [dict(self.judgements)] if self.judgements else []
        return [self.id, self.question, list(self.answers), *judged]

    @property
    def is_judged(self) -> bool:
        """Whether something is known by which a result can be judged."""
        return bool(self.answers or self.judgements)
