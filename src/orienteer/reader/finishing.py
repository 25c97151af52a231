"""From trained weights to a reader that can be shipped: PS fitted, weights in int8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orienteer.data import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.answers import holds_answer
from orienteer.reader.calibration import Calibration, fit_linear
from orienteer.reader.folder import load_folder, quantise, save_folder
from orienteer.reader.ranking import bm25_passages
from orienteer.reader.runtime import TrainedReader


class Fitted(NamedTuple):
    """PS = calibration(select + span_weight · confidence)."""

    calibration: Calibration
    span_weight: float


def fit_scores(reader: TrainedReader, engine: Engine, questions: Sequence[Question], depth: int = 20) -> Fitted:
    """What makes PS likeliest over the BM25 top `depth` of questions that training did not see."""
    found = bm25_passages(engine, questions, depth)
    features: list[tuple[float, float]] = []
    truths: list[bool] = []
    for question, (_, passages), looks in zip(questions, found, reader.look(found), strict=True):
        features += [(look.select, look.confidence) for look in looks]
        truths += [holds_answer(passage.text, question.answers) for passage in passages]
    (select, confidence), b = fit_linear(features, truths)
    return Fitted(Calibration(float(select), b), float(confidence / select))


def finish(
    trained: Path,
    out: Path,
    engine: Engine | None = None,
    questions: Sequence[Question] = (),
    threads: int = 0,
    **notes: Any,
) -> Fitted:
    """Writes the int8 reader of a trained folder to `out`, calibrated where an engine and questions are given.

    PS is fitted on the int8 reader's own logits: those are what it will be applied to.
    """
    files = load_folder(trained)
    fitted = Fitted(files.calibration, float(files.config["reader"].get("span_weight", 0.0)))
    if engine is not None and questions:
        fitted = fit_scores(TrainedReader(files, "int8", threads), engine, questions)
    kept = {k: v for k, v in files.config["reader"].items() if k not in ("calibration", "sha256")}
    config = {key: value for key, value in files.config.items() if key != "reader"}
    kept |= {"span_weight": fitted.span_weight, **notes}
    save_folder(out, config, quantise(files.tensors), files.tokenizer, fitted.calibration, **kept)
    return fitted
