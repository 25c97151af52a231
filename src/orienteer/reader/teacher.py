"""Teachers' scores of mined passages, computed once and kept, so that a student learns from them without their cost.

A teacher is anything that scores a passage for a question: a reader, a cross-encoder, a bi-encoder's cosine. Several
are joined by a logistic fit of whether the passage holds an answer, over the mined rows themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orienteer.data.atomic import atomic_write
from orienteer.reader.folder import likeliest
from orienteer.reader.mining import Evidence, TrainingRow

# One score for each passage of a question.
Teacher = Callable[[str, Sequence[Evidence]], Sequence[float]]
Scores = list[list[float]]  # [teachers][passages] of one row

CHUNK = 50  # rows between two files: half a minute of work


def score_rows(
    rows: Sequence[TrainingRow], teachers: Sequence[Teacher], folder: Path, done: Callable[[int], None]
) -> list[Scores]:
    """The teachers' scores of every row; finished chunks are kept in `folder`, and a killed run goes on after them."""
    folder.mkdir(parents=True, exist_ok=True)
    scores: list[Scores] = []
    for at in range(0, len(rows), CHUNK):
        file = folder / f"{at:08d}.json"
        if not file.exists():
            made = [[list(t(row.question, row.passages)) for t in teachers] for row in rows[at : at + CHUNK]]
            atomic_write(file, json.dumps(made).encode())
        scores += json.loads(file.read_bytes())
        done(len(scores))
    return scores


def fit_teachers(rows: Sequence[TrainingRow], scores: Sequence[Scores]) -> NDArray[np.float64]:
    """The weights of the teachers and a bias, by which passages that hold an answer are likeliest: [teachers + 1]."""
    columns = np.concatenate([np.array(each, np.float64).T for each in scores])  # [passages, teachers]
    truths = [bool(evidence.spans) for row in rows for evidence in row.passages]
    centre, scale = columns.mean(0), columns.std(0) + 1e-9
    design = np.column_stack([(columns - centre) / scale, np.ones(len(columns))])
    *weights, bias = likeliest(design, truths, prior=np.zeros(design.shape[1]).tolist())
    weights = np.array(weights) / scale
    return np.append(weights, bias - weights @ centre)


def with_teacher(
    rows: Sequence[TrainingRow], scores: Sequence[Scores], weights: NDArray[np.float64]
) -> Iterator[TrainingRow]:
    """The rows with the joined logit of the teachers on every passage."""
    for row, each in zip(rows, scores, strict=True):
        logits = iter((np.array(each, np.float64).T @ weights[:-1] + weights[-1]).tolist())
        yield replace(
            row,
            gold=replace(row.gold, teacher=next(logits)) if row.gold else None,
            retrieved=tuple(replace(evidence, teacher=next(logits)) for evidence in row.retrieved),
            negatives=tuple(replace(evidence, teacher=next(logits)) for evidence in row.negatives),
        )
