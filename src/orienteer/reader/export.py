"""From trained weights to a reader that can be shipped: PS fitted, weights in int8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orienteer.data import Question
from orienteer.engine.protocol import Engine
from orienteer.models.model_folder import quantise
from orienteer.reader.evaluate import find_and_read
from orienteer.reader.folder import Calibration, fit, load_folder, save_folder
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
