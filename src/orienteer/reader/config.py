"""The configuration of reader training, which is also the command line of `orienteer train reader`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from orienteer.training.config import LoopConfig, option


@dataclass(frozen=True, slots=True)
class Share:
    """How often a source is drawn, how many negatives go with each of its positives on average, and which part of
    the positives come from search, where the question has such passages: they hold the answer's words, and often
    enough for another reason.
    """

    weight: float
    negatives: float
    retrieved: float = 0.5


# SQuAD-like questions teach spans, and only their own passages do: another passage that holds the same number or name
# seldom answers. Natural Questions teach selection. Gold passages of `nq_restored` are special (see the data's
# README), so retrieved ones stand beside them.
SHARES: Mapping[str, Share] = {
    "squad_train_part": Share(0.26, 0.25, 0.0),
    "squad_train_part2": Share(0.15, 0.25, 0.0),
    "squadshifts_new_wiki": Share(0.15, 0.25, 0.0),
    "reading": Share(0.22, 0.0),
    "nq_restored": Share(0.09, 3.0),
    "nq_dpr_dev": Share(0.08, 3.0),
    "triviaqa_dev": Share(0.04, 2.0),
    "webquestions": Share(0.01, 2.0),
    # Questions of two steps: no passage that search finds answers them alone.
    **dict.fromkeys(("hotpotqa_dev", "hybridqa_dev", "ottqa_dev"), Share(0.0, 0.0)),
}


def with_negatives(shares: Mapping[str, Share], count: int) -> Mapping[str, Share]:
    """So many negatives for every source that teaches ranking: one that has more than one by default."""
    if not count:
        return shares
    return {name: replace(s, negatives=float(count)) if s.negatives > 1 else s for name, s in shares.items()}


@dataclass(frozen=True, slots=True)
class StreamConfig:
    batch: int = 16
    pool: int = 512  # sequences sorted by length together
    max_pieces: int = 192
    blank_titles: float = 0.5  # of positives and negatives alike
    shares: Mapping[str, Share] = field(default_factory=dict)  # by source; others weigh as their part of the rows
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(LoopConfig):
    """Data first, then the model, then rates; what has no help text is for Python alone.

    part           sequences a thread takes at once
    freeze_layers  each saves a ninth of a step of a six-layer encoder
    rounded_part   the last part of the schedule, which computes as int8 will
    """

    index: Path | None = option("index that negatives are mined from", None)
    questions: tuple[Path, ...] = option("questions with answers (and gold passages) to mine for", ())
    reading: tuple[Path, ...] = option("questions that come with their passage, for spans only", ())
    rows: tuple[Path, ...] = option("files of mined rows, instead of --questions", ())
    dev: Path | None = option("questions to judge progress on", None)
    calibrate: tuple[Path, ...] = option("questions that PS is fitted on, 300 of each file", ())
    base: str = option("a BERT or a reader: folder, hub name, shipped", "shipped", names=("--base", "--from"))
    teacher: str = option("a reader whose outputs a student learns; becomes its base too", "")
    layers: tuple[int, ...] = option("layers of the base a student keeps, such as 0,2,5", ())
    learning_rate: float = option("at the end of the warm-up", 2e-4)
    negatives: int = option("of a question that learns to rank; 0: as many as each source has by default", 0, min=0)
    freeze_layers: int = option("layers that stay as they are, counted from below", 1, min=0)
    bfloat16: bool = option("three times as fast where `lscpu` names avx512_bf16, slower elsewhere", False)
    judge_minutes: float = option("between two judgements on --dev", 12.0)
    patience: int = 0
    warmup: float = 0.04  # of the schedule
    weight_decay: float = 0.01
    clip: float = 1.0
    select_weight: float = 1.5
    rank_weight: float = 1.0
    teacher_weight: float = option("of what teachers say, beside what is known of the answer", 1.0, min=0.0)
    part: int = 4
    freeze_embeddings: bool = True
    rounded_part: float = 0.25
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(shares=SHARES))
