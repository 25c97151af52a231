"""Exact search: the passages whose stored vectors have the greatest product with a question's.

A question's vector is rounded to whole 4096ths. Its products with int8 vectors are then whole numbers below 2^24, which
float32 adds without error in any order: a score is the same to the bit on every machine, however blocks are cut and
threads are shared, and equal scores stand in the order of the passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.dense.embeddings import Embeddings
from orienteer.dense.encoder import TextEncoder
from orienteer.engine.protocol import Hit, StoresPassages

_GRID = 4096  # 4096 · 127 · √width < 2^24 for every width to 1,024
_TOGETHER = 64  # questions that share one walk: their scores of a shard stay in the cache


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


def nearest(
    embeddings: Embeddings, questions: NDArray[np.float32], k: int
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """For each question [questions, width] the numbers of its k best passages, and their scores, best first."""
    found: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    for start in range(0, len(questions), _TOGETHER):
        found += _walk(embeddings, on_grid(questions[start : start + _TOGETHER]), k)
    return found


def on_grid(questions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Questions' vectors in whole 4096ths: all that a search sees of them."""
    whole: NDArray[np.float32] = np.rint(questions * np.float32(_GRID))
    return whole


def _walk(
    embeddings: Embeddings, questions: NDArray[np.float32], k: int
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    best = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in questions]
    bar = np.full((len(questions), 1), -np.inf, np.float32)  # what a passage has to beat
    size = max((len(rows) for rows in embeddings.shards.values()), default=0)
    buffer = np.empty((size, embeddings.manifest.width), np.float32)
    for number, rows in embeddings.shards.items() if k > 0 else ():
        first = embeddings.manifest.rows(number).start
        block = buffer[: len(rows)]
        np.copyto(block, rows["vector"])
        scores = questions @ block.T  # [questions, rows], whole numbers
        scores *= rows["scale"] / np.float32(_GRID)
        above = scores > bar
        for q in np.flatnonzero(above.any(axis=1)):
            best[q] = _better(best[q], first, scores[q], np.flatnonzero(above[q]), k)
            if len(best[q][1]) == k:
                bar[q] = best[q][1][-1]
    return best


def _better(
    best: tuple[NDArray[np.int64], NDArray[np.float32]], first: int, scores: NDArray[np.float32],
    places: NDArray[np.int64], k: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """The best k of those before and of some of this block; the sort is stable, so earlier passages win ties."""
    numbers = np.concatenate([best[0], first + places])
    values = np.concatenate([best[1], scores[places]])
    order = np.argsort(-values, kind="stable")[:k]
    return numbers[order], values[order]
