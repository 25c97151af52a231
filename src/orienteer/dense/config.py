"""The configuration of encoder training, which is also the command line of `orienteer train encoder`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orienteer.training.config import LoopConfig, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(LoopConfig):
    """Rows, then the model, then rates; what has no help text is for Python alone.

    passages      of a question in a step: one that holds the answer, the others do not
    scale         a cosine of 1 as a logit
    held_out      questions to judge on, which are never trained on
    rounded_part  the last part of the schedule, which computes as int8 will
    """

    rows: tuple[Path, ...] = option("files of mined rows, best with teachers' scores; may be repeated")
    base: str = option("a BERT to start from, best a small sentence encoder: folder or hub name")
    layers: tuple[int, ...] = option("layers of the base that the student keeps; none: all", ())
    teacher: str = option("an encoder whose vectors the student copies too, best the base with all its layers", "")
    batch: int = option("questions a step", 8, min=2)
    learning_rate: float = option("at the end of the warm-up", 5e-5)
    teacher_weight: float = option("of the teachers' order, beside what is known of the answer", 1.0, min=0.0)
    bfloat16: bool = option("three times as fast where `lscpu` names avx512_bf16, slower elsewhere", False)
    passages: int = 8
    scale: float = 20.0
    held_out: int = 200
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    rounded_part: float = 0.2
