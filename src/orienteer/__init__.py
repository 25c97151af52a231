"""Agents that use a search engine the way a skilled person does."""

from orienteer.data import Passage, Question
from orienteer.query import GRAMMARS, Query, Refinement, parse

__all__ = ["GRAMMARS", "Passage", "Query", "Question", "Refinement", "parse"]
