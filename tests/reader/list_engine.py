"""An engine that finds every passage of a list, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.data import Passage
from orienteer.engine.protocol import Hit
from orienteer.query import Query, Refinement


class ListEngine:
    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = {passage.id: passage for passage in passages}

    def search(self, query: Query, k: int) -> list[Hit]:
        return [Hit(id, 1.0) for id in list(self._passages)[:k]]

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for _ in refinements]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return [self._passages[id] for id in ids]

    def idf(self, field: str, term: str) -> float:
        return 1.0

    def analyze(self, text: str) -> list[str]:
        return text.lower().split()
