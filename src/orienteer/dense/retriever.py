"""The `Retriever` protocol, and a retriever over embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orienteer.dense.embeddings import Embeddings
from orienteer.dense.encoder import TextEncoder
from orienteer.dense.search import nearest
from orienteer.engine.index import Index
from orienteer.engine.protocol import Hit

DECIMALS = 6  # of a score: what a run file holds, so that a run replays to the bit


class Retriever(Protocol):
    """From questions in plain words to passages."""

    @property
    def fingerprint(self) -> str:
        """Names the encoder."""
        ...

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The top k of each question, best first; equal scores in the order of the passages."""
        ...


class EmbeddingRetriever:
    """Exact search over the stored vectors of an index; a score is about a cosine."""

    def __init__(self, index: Index, embeddings: Embeddings, encoder: TextEncoder) -> None:
        embeddings.check(index, encoder.fingerprint)
        self._index, self._embeddings, self._encoder = index, embeddings, encoder
        self.fingerprint = encoder.fingerprint

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        found = nearest(self._embeddings, self._encoder.encode(questions), k)
        return [
            [Hit(self._index.id(n), round(s, DECIMALS)) for n, s in zip(numbers.tolist(), scores.tolist(), strict=True)]
            for numbers, scores in found
        ]
