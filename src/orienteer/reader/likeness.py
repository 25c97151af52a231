"""A second opinion on a passage: how alike question and passage are to a bi-encoder.

The reader looks for the answer; a bi-encoder, which has seen far more pairs of questions and passages than any reader
here, knows what a passage is about. Each is wrong in its own way: the sum of the reader's logit and a weighted cosine
orders passages better than either.

    logit = selection head + weight · (cosine − at)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.data.passage import Passage
from orienteer.errors import TrainingError
from orienteer.reader.bi_encoder import BiEncoder
from orienteer.reader.fair_threads import FairThreads
from orienteer.reader.folder import LikenessFiles

_QUESTIONS = 256  # whose vectors are remembered: a session reads its question's passages a few at a time
_WEIGHTS = np.arange(0.0, 60.5, 0.5)
Floats = NDArray[np.float64]


class Judged(NamedTuple):
    """Of the passages of one question: [passages] each."""

    logits: Floats
    cosines: Floats
    relevant: NDArray[np.bool_]


class Likeness:
    """What the cosines of a question with passages add to their logits."""

    def __init__(
        self, files: LikenessFiles, tokenizer: Tokenizer, threads: int, workers: FairThreads | None = None
    ) -> None:
        self._weight, self._at = files.weight, files.at
        self._encoder = BiEncoder(files.config, files.tensors, tokenizer, files.pooling, threads, workers)
        self._question = lru_cache(_QUESTIONS)(lambda question: next(iter(self._encoder.questions([question]))))

    def __call__(self, question: str, passages: Sequence[Passage]) -> list[float]:
        wanted = self._question(question)
        vectors = self._encoder.passages([passage.contents for passage in passages])
        return [self._weight * (float(vector @ wanted) - self._at) for vector in vectors]


def fit_weight(questions: Sequence[Judged]) -> float:
    """The weight under which a relevant passage is likeliest to come first, drawn by the softmax of the logits."""
    mixed = [each for each in questions if each.relevant.any() and not each.relevant.all()]
    if not mixed:
        raise TrainingError("no question has both relevant and other passages; give questions whose answers are found")

    def likelihood(weight: float) -> float:
        total = 0.0
        for each in mixed:
            logits = each.logits + weight * each.cosines
            total += float(_logsumexp(logits[each.relevant]) - _logsumexp(logits))
        return total

    return float(max(_WEIGHTS, key=likelihood))


def _logsumexp(values: Floats) -> float:
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))
