"""Which questions have an answer that the training set has too: there an agent may remember instead of search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Question
from orienteer.reader.answer_matching import answer_forms

GROUPS = ("answer in the training set", "answer not in it")


def overlapping(questions: Sequence[Question], training: Iterable[Question]) -> NDArray[np.bool_]:
    """True where some gold answer equals, once normalised, some answer of the training set."""
    known = {form for question in training for form in answer_forms(question.answers)}
    return np.array([any(form in known for form in answer_forms(q.answers)) for q in questions], bool)
