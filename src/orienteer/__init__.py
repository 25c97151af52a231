"""Agents that use a search engine the way a skilled person does.

The whole public API: data (`Passage`, `Question`), queries (`Query`, `Refinement`, `parse`, `GRAMMARS`), and engines.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.data import Passage, Question, read_passages, read_questions
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS, Query, Refinement, parse

if TYPE_CHECKING:
    from orienteer.engine import Engine, Hit, build_index, check_engine, open_index, update_index

_ENGINE = ("Engine", "Hit", "build_index", "check_engine", "open_index", "update_index")

__all__ = [
    "GRAMMARS", "Engine", "Hit", "OrienteerError", "Passage", "Query", "Question", "Refinement",
    "build_index", "check_engine", "open_index", "parse", "read_passages", "read_questions", "update_index",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """The engine is imported when it is first used."""
    if name not in _ENGINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("orienteer.engine"), name)
