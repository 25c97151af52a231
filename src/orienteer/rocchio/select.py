"""Questions for training, balanced over what they ask for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from orienteer.data.passage import Question

TYPES = ("who", "what", "when", "where", "which", "how", "why")


def question_type(text: str) -> str:
    """The question word that comes first in the text; "other" where there is none."""
    words = (word.strip("\"'‘“(").removesuffix("'s").removesuffix("’s") for word in text.lower().split())
    known = {**{word: word for word in TYPES}, "whom": "who", "whose": "who"}
    return next((known[word] for word in words if word in known), "other")


def balanced(questions: Iterable[Question]) -> list[Question]:
    """All questions, so ordered that any first so many hold every type alike, as long as it lasts."""
    by_type: dict[str, list[Question]] = {name: [] for name in (*TYPES, "other")}
    for question in questions:
        by_type[question_type(question.question)].append(question)
    return [question for row in zip_longest(*by_type.values()) for question in row if question is not None]
