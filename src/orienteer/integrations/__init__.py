"""Orienteer inside other frameworks: a retriever each for LangChain and LlamaIndex, a transformer for PyTerrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orienteer.api import FoundPassage, Searcher


def find_passages(searcher: Searcher, questions: Sequence[str], k: int) -> list[tuple[FoundPassage, ...]]:
    """The best k passages of each question, all asked in one batch; none for a blank question."""
    answers = searcher.ask_many(question for question in questions if question.strip())
    return [next(answers).passages[:k] if question.strip() else () for question in questions]


def metadata(passage: FoundPassage) -> dict[str, Any]:
    """What a framework's document says of a passage beside its text; the query is the one that found it."""
    return {name: getattr(passage, name) for name in ("id", "title", "ps", "answer", "query", "rank")}
