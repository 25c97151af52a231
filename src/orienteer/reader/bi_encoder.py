"""A bi-encoder, without torch: texts in, unit vectors out; the cosine of two vectors says how alike the texts are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.models.bert_encoder import BertEncoder
from orienteer.models.model_folder import Tensors
from orienteer.reader.encoding import Marks, pieces
from orienteer.reader.fair_threads import FairThreads

PIECES = 128  # of a text, [CLS] and [SEP] included


@dataclass(frozen=True, slots=True)
class Pooling:
    """How a BERT's states become a vector, and what stands before a text."""

    states: Literal["mean", "cls"] = "mean"
    question: str = ""
    passage: str = ""


class BiEncoder:
    """A BERT over at most 128 wordpieces, in int8: the mean of its last states, or the state of [CLS]."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Tensors,
        tokenizer: Tokenizer,
        pooling: Pooling,
        threads: int = 0,
        workers: FairThreads | None = None,
    ) -> None:
        """`workers`: so many threads that another model has too.

        Raises KeyError, RuntimeError or ValueError where the tensors do not make an encoder.
        """
        threads = threads or len(os.sched_getaffinity(0))
        self.pooling, self.width = pooling, int(config["hidden_size"])
        self._tokenizer, self._marks = tokenizer, Marks.of(tokenizer)
        self._encoder = BertEncoder(config, tensors, tokenizer, threads=threads)
        if (places := len(tensors["encoder.embeddings.position_embeddings.weight"])) < PIECES:
            raise ValueError(f"{places} positions; an encoder needs {PIECES}")
        self._workers = workers or (FairThreads(threads, "encoder") if threads > 1 else None)

    def passages(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        return self._vectors([self.pooling.passage + text for text in texts])

    def questions(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        return self._vectors([self.pooling.question + text for text in texts])

    def _vectors(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Each text goes through the encoder alone, one core each: no bit of its vector depends on the batch."""
        cls, sep = self._marks
        rows = [[cls, *each.ids[: PIECES - 2], sep] for each in pieces(self._tokenizer, texts)]
        mapped: Callable[..., Iterator[NDArray[np.float32]]] = self._workers.map if self._workers else map
        return mapped(self._vector, rows)

    def _vector(self, ids: Sequence[int]) -> NDArray[np.float32]:
        states = self._encoder(ids, [0] * len(ids))  # [pieces, width]
        pooled = states[0] if self.pooling.states == "cls" else states.mean(0)
        unit: NDArray[np.float32] = pooled / max(np.float32(1e-12), np.linalg.norm(pooled))
        return unit
