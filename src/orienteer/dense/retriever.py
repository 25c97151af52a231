"""The `Retriever` protocol, and a retriever over embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.dense.embeddings import Embeddings
from orienteer.dense.encoder import TextEncoder
from orienteer.dense.search import nearest
from orienteer.engine.protocol import Hit, StoresPassages


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

    def __init__(self, engine: StoresPassages, embeddings: Embeddings, encoder: TextEncoder) -> None:
        embeddings.check(engine, encoder.fingerprint)
        self._engine, self._embeddings, self._encoder = engine, embeddings, encoder
        self.fingerprint = encoder.fingerprint
        self.manifest = embeddings.manifest

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        return self.search_vectors(self.vectors(questions), k)

    def vectors(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """[questions, width]"""
        return self._encoder.encode(questions)

    def search_vectors(self, vectors: NDArray[np.float32], k: int) -> list[list[Hit]]:
        """`search_many` for vectors of questions."""
        return [
            [Hit(self._engine.id_at(n), score) for n, score in zip(numbers.tolist(), scores.tolist(), strict=True)]
            for numbers, scores in nearest(self._embeddings, vectors, k)
        ]
