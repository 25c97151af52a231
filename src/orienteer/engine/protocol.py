"""The `Engine` protocol: everything Orienteer asks of a search engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from orienteer.data.passage import Passage
from orienteer.query import Query, Refinement


class Hit(NamedTuple):
    """A passage found, with its BM25 score (a float32 value)."""

    id: str
    score: float


@runtime_checkable
class Engine(Protocol):
    """Hits come best first; equal scores in the order in which the passages were indexed."""

    def search(self, query: Query, k: int) -> Sequence[Hit]:
        """The top k passages of one query."""
        ...

    def search_many(self, queries: Sequence[Query], k: int) -> Sequence[Sequence[Hit]]:
        """`search` for each query, in one call."""
        ...

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> Sequence[Sequence[Hit]]:
        """The top k of query + r for every r, exactly as `search` would give them."""
        ...

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The stored passages with these ids, in their order."""
        ...

    def idf(self, field: str, term: str) -> float:
        """Lucene's BM25 idf of an index term in a field; that of df = 0 where no passage has it."""
        ...

    def analyze(self, text: str) -> list[str]:
        """The index terms of a text, in order, stop words removed."""
        ...
