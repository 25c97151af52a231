"""From trained weights to a reader that can be shipped: PS fitted, weights in int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data import Question
from orienteer.engine.protocol import Engine
from orienteer.models.bert_encoder import plain_tokenizer
from orienteer.models.model_folder import quantise
from orienteer.reader.evaluate import find_and_read
from orienteer.reader.folder import (
    LIKENESS,
    Calibration,
    LikenessFiles,
    ReaderFiles,
    fit,
    load_folder,
    save_folder,
    with_likeness,
)
from orienteer.reader.likeness import Judged, Likeness, fit_weight
from orienteer.reader.runtime import TrainedReader


def fit_calibration(
    reader: TrainedReader, engine: Engine, questions: Sequence[Question], depth: int = 20
) -> Calibration:
    """a and b of PS over the BM25 top `depth` of questions that training did not see."""
    found = find_and_read(reader, engine, questions, depth)
    return fit(
        [reading.logit for each in found for reading in each.readings],
        [holds for each in found for holds in each.relevant],
    )


def add_likeness(
    files: ReaderFiles, encoder: LikenessFiles, engine: Engine, questions: Sequence[Question], threads: int = 0
) -> tuple[ReaderFiles, Calibration]:
    """The reader with a bi-encoder beside it: what a cosine counts is fitted on the BM25 top 20 of the questions, then
    PS. `weight` and `at` of `encoder` are not looked at.
    """
    alone = replace(files, told={key: value for key, value in files.told.items() if key != LIKENESS})
    found = find_and_read(TrainedReader(alone, threads=threads), engine, questions, 20)
    measure = Likeness(replace(encoder, weight=1.0, at=0.0), plain_tokenizer(files.tokenizer), threads)
    judged = [
        Judged(
            np.array([reading.logit for reading in each.readings]),
            np.array(measure(each.question.question, each.passages)),
            np.array(each.relevant, bool),
        )
        for each in found
        if each.passages
    ]
    weight = fit_weight(judged)
    at = float(np.mean(np.concatenate([each.cosines for each in judged])))
    logits = np.concatenate([each.logits + weight * (each.cosines - at) for each in judged])
    calibration = fit(logits, np.concatenate([each.relevant for each in judged]))
    return with_likeness(files, replace(encoder, weight=weight, at=at)), calibration


def finish(
    trained: Path,
    out: Path,
    engine: Engine | None = None,
    questions: Sequence[Question] = (),
    threads: int = 0,
    **notes: Any,
) -> Calibration:
    """Writes the int8 reader of a trained folder to `out`, calibrated where an engine and questions are given.

    PS is fitted on the int8 reader's own logits: those are what it will be applied to.
    """
    files = load_folder(trained)
    calibration = files.calibration
    if engine is not None and questions:
        calibration = fit_calibration(TrainedReader(files, "int8", threads), engine, questions)
    told = {**files.notes, **notes}
    save_folder(out, files.config, quantise(files.tensors), files.tokenizer, calibration, **told)
    return calibration
