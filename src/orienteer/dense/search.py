"""Exact search: the passages whose stored vectors have the greatest product with a question's.

A question's vector is rounded to whole 4096ths. Its products with int8 vectors are then whole numbers below 2^24, which
int32 adds and float32 holds without error: a score is the same to the bit on every machine, however blocks are cut and
threads are shared, and equal scores stand in the order of the passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.dense import kernels
from orienteer.dense.embeddings import Embeddings
from orienteer.dense.encoder import Encoder
from orienteer.engine.embedded.metadata_filter import EVERYTHING
from orienteer.engine.protocol import Hit, StoresPassages, allowed_by

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

    def __init__(self, engine: StoresPassages, embeddings: Embeddings, encoder: Encoder) -> None:
        embeddings.check(engine, encoder.fingerprint)
        self._engine, self._embeddings, self._encoder = engine, embeddings, encoder
        self.fingerprint = encoder.fingerprint
        self.manifest = embeddings.manifest

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        return self.search_vectors(self.vectors(questions), k)

    def vectors(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """[questions, width]"""
        return self._encoder.encode_questions(questions)

    def search_vectors(self, vectors: NDArray[np.float32], k: int) -> list[list[Hit]]:
        """`search_many` for vectors of questions."""
        return [
            [Hit(self._engine.id_at(n), score) for n, score in zip(numbers.tolist(), scores.tolist(), strict=True)]
            for numbers, scores in nearest(self._embeddings, vectors, k, allowed_by(self._engine))
        ]


def nearest(
    embeddings: Embeddings, questions: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] = EVERYTHING
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """For each question [questions, width] the numbers of its k best passages, and their scores, best first.

    `allowed`: bool [passages], which may be results; empty: all.
    """
    found: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    for start in range(0, len(questions), _TOGETHER):
        found += _walk(embeddings, on_grid(questions[start : start + _TOGETHER]), k, allowed)
    return found


def on_grid(questions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Questions' vectors in whole 4096ths: all that a search sees of them."""
    whole: NDArray[np.float32] = np.rint(questions * np.float32(_GRID))
    return whole


def _walk(
    embeddings: Embeddings, questions: NDArray[np.float32], k: int, allowed: NDArray[np.bool_]
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    k = min(k, sum(map(len, embeddings.shards.values())))
    if k <= 0:
        return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in questions]
    numbers, scores = np.empty((len(questions), k), np.int64), np.empty((len(questions), k), np.float32)
    counts, asked = np.zeros(len(questions), np.int64), questions.astype(np.int16)
    for number, rows in embeddings.shards.items():
        size, offset = rows.dtype.itemsize, rows.dtype.itemsize - embeddings.manifest.width
        # The file is a plain array of bytes for the kernel; a map that is not of one would be copied.
        shard = np.asarray(rows).view(np.int8).reshape(len(rows), size)
        scales = embeddings.scales[number] / np.float32(_GRID)
        first = embeddings.manifest.rows(number).start
        kernels.search(shard, offset, scales, asked, first, allowed, numbers, scores, counts)
    return [(numbers[q, :count], scores[q, :count]) for q, count in enumerate(counts.tolist())]
