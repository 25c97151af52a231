"""The configuration of encoder training, which is also the command line of `orienteer train encoder`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orienteer.training.config import LoopConfig, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(LoopConfig):
    """Texts, then the model, then rates; what has no help text is for Python alone.

    part          texts a thread takes at once
    rounded_part  the last part of the schedule, which computes as int8 will
    """

    index: Path = option("index whose passages are encoded")
    questions: tuple[Path, ...] = option("files of questions; may be repeated")
    teacher: Path = option("folder of a bi-encoder, such as bge-small")
    base: str = option("a BERT to start from, best a small sentence encoder: folder or hub name")
    layers: tuple[int, ...] = option("layers of the base that the student keeps; none: all", ())
    batch: int = option("texts a step, a third of them questions", 48, min=3)
    learning_rate: float = option("at the end of the warm-up", 3e-4)
    warmup: float = 0.03
    weight_decay: float = 0.01
    clip: float = 1.0
    part: int = 8
    rounded_part: float = 0.2
