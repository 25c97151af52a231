"""Questions for training, balanced over what they ask for and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from orienteer.data.passage import Question
from orienteer.rocchio.config import RocchioError

TYPES = ("who", "what", "when", "where", "which", "how", "why")


def question_type(text: str) -> str:
    """The question word that comes first in the text; "other" where there is none."""
    words = (word.strip("\"'‘“(").removesuffix("'s").removesuffix("’s") for word in text.lower().split())
    known = {**{word: word for word in TYPES}, "whom": "who", "whose": "who"}
    return next((known[word] for word in words if word in known), "other")


def of_sources(questions: Iterable[Question], sources: Sequence[str]) -> list[Question]:
    """The questions whose source is one of these, the sources in the order given; all of them where none is."""
    by_source: dict[str, list[Question]] = {}
    for question in questions:
        by_source.setdefault(question.source, []).append(question)
    for source in sources:
        if source not in by_source:
            has = ", ".join(sorted(filter(None, by_source))) or "none that is named"
            raise RocchioError(f"no question has the source {source!r}; the files have {has}")
    return [question for source in (sources or by_source) for question in by_source[source]]


def balanced(questions: Iterable[Question]) -> list[Question]:
    """All questions, so ordered that any first so many hold every type alike, and within a type every source."""
    by_type: dict[str, dict[str, list[Question]]] = {name: {} for name in (*TYPES, "other")}
    for question in questions:
        by_type[question_type(question.question)].setdefault(question.source, []).append(question)
    return _in_turn(_in_turn(by_source.values()) for by_source in by_type.values())


def _in_turn(queues: Iterable[Sequence[Question]]) -> list[Question]:
    """The first of every queue, the second of every queue, …; a queue that has ended is passed over."""
    return [question for row in zip_longest(*queues) for question in row if question is not None]
