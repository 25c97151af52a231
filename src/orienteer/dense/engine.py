"""Retrievers behind the `Engine` protocol, so that sessions, records and tables take them as they are."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.data.passage import Passage
from orienteer.dense.search import Retriever
from orienteer.engine.protocol import Engine, Hit, fingerprint_of
from orienteer.errors import QueryError
from orienteer.query import Query, Refinement

_FUSION = 60  # the usual constant of reciprocal rank fusion
_BESIDE = "+"  # in a fingerprint, before what searches the same passages beside BM25


def passages_of(fingerprint: str) -> str:
    """The part of an engine's fingerprint that names its index: `DenseEngine` and the like add their retriever."""
    return fingerprint.partition(_BESIDE)[0]


class DenseEngine:
    """Finds passages by their vectors; all else is the engine's own. It takes plain questions, no refinements."""

    def __init__(self, engine: Engine, retriever: Retriever) -> None:
        self._engine, self._retriever = engine, retriever
        self.fingerprint = f"{fingerprint_of(engine)}{_BESIDE}{retriever.fingerprint}"

    def search(self, query: Query, k: int) -> list[Hit]:
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        for query in queries:
            if query.refinements:
                raise QueryError("dense retrieval takes plain questions, without refinements", str(query))
        found = iter(self._retriever.search_many([query.question for query in queries if query.question], k))
        return [next(found) if query.question else [] for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return self.search_many([query.refine(refinement) for refinement in refinements], k)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return self._engine.passages(ids)

    def idf(self, field: str, term: str) -> float:
        return self._engine.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._engine.analyze(text)


class HybridEngine(DenseEngine):
    """Half of the passages by BM25 and half by their vectors, as one list.

    A passage's score is the sum of 1 / (60 + its rank) over the two lists; equal ones in BM25's order first.
    """

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        dense = super().search_many(queries, k - k // 2)
        sparse = self._engine.search_many(queries, k // 2)
        return [_fused(first, second) for first, second in zip(sparse, dense, strict=True)]


class FirstPassEngine:
    """BM25, and for a plain question also the nearest passages by their vectors: where a session starts from.

    A query with refinements is BM25's alone. A plain question has up to k + `nearest` hits, in `HybridEngine`'s order.
    """

    def __init__(self, engine: Engine, retriever: Retriever, nearest: int) -> None:
        self._engine, self._retriever, self._nearest = engine, retriever, nearest
        self.fingerprint = f"{fingerprint_of(engine)}{_BESIDE}{nearest}:{retriever.fingerprint}"

    def search(self, query: Query, k: int) -> Sequence[Hit]:
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[Query], k: int) -> list[Sequence[Hit]]:
        plain = [query.question for query in queries if query.question and not query.refinements]
        found = iter(self._retriever.search_many(plain, self._nearest) if plain else [])
        return [
            _fused(hits, next(found)) if query.question and not query.refinements else hits
            for query, hits in zip(queries, self._engine.search_many(queries, k), strict=True)
        ]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> Sequence[Sequence[Hit]]:
        return self._engine.refine(query, refinements, k)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return self._engine.passages(ids)

    def idf(self, field: str, term: str) -> float:
        return self._engine.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._engine.analyze(text)


def _fused(*lists: Sequence[Hit]) -> list[Hit]:
    scores: dict[str, float] = {}
    for hits in lists:
        for rank, hit in enumerate(hits, 1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (_FUSION + rank)
    return sorted((Hit(id, score) for id, score in scores.items()), key=lambda hit: -hit.score)
