"""Training a model of text to text: batches in, a folder with weights out (needs `[train]`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from orienteer.agents.t5.dataset import StreamPosition, TokenExample, by_length
from orienteer.agents.t5.model import Seq2Seq, from_files
from orienteer.agents.t5.model_files import Codec, ModelFiles, Purpose, load_folder, save_folder
from orienteer.training import loop
from orienteer.training.config import LoopConfig, described
from orienteer.training.loop import Cursor, Progress, State, linear_decay

_VALUE = ("reward", "EM-T5")  # of a judgement, where it has one of them; the loss otherwise

Stream = Callable[[StreamPosition], Iterator[tuple[StreamPosition, list[TokenExample]]]]
Judge = Callable[[ModelFiles], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(LoopConfig):
    """learning_rate   AdaFactor's: relative to each matrix's own size
    decay           the last part of the schedule in which the rate falls to nothing; 0: constant, as in the paper
    part_tokens     of the encoder, that a thread takes at once
    freeze_encoder  the decoder alone learns, many times as fast
    notes           kept in the model's folder
    """

    purpose: Purpose = "t5"
    layout: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 5e-4
    decay: float = 0.0
    part_tokens: int = 2048
    freeze_words: bool = False
    freeze_encoder: bool = False
    judge_minutes: float = 20.0
    notes: Mapping[str, Any] = field(default_factory=dict)


def train(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    stream: Stream,
    held: Sequence[TokenExample],
    config: TrainConfig,
    judge: Judge | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Seq2Seq:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a model's folder there.

    The folder holds the weights that were judged best: by `judge`, or without one by the loss on the rows held out.
    """
    torch.manual_seed(config.seed)
    if config.freeze_words:
        model.freeze_words()
    if config.freeze_encoder:
        model.freeze_encoder()

    def batches(cursor: Cursor, step: int) -> Iterator[tuple[Cursor, list[TokenExample]]]:
        if config.freeze_encoder:  # its weights are those of the checkpoint now
            model.cache_encoder(Codec(tokenizer, model.config).vocabulary, config.threads)
        return ((asdict(place), batch) for place, batch in stream(StreamPosition(**cursor)))

    def loss(part: list[TokenExample], batch: list[TokenExample]) -> tuple[Tensor, Mapping[str, Tensor]]:
        mean = model(part) / sum(row.size for row in batch)
        return mean, {"token": mean}

    def evaluate() -> Mapping[str, float]:
        measures = {"loss": held_out_loss(model, held, config)} if held else {}
        if judge is not None:
            model.eval()
            measures |= judge(model.files(config.purpose, tokenizer.to_str(), dict(config.layout)))
        return measures

    def value(measures: Mapping[str, float]) -> float:
        return next((measures[name] for name in _VALUE if name in measures), -measures.get("loss", 0.0))

    def save(folder: Path, state: State, measures: Mapping[str, float]) -> None:
        notes = {
            "step": state.step, "epoch": state.cursor.get("epoch", 0), "seconds": round(state.spent),
            "measures": dict(measures), "training": described(config),
        }  # fmt: skip
        save_folder(folder, config.purpose, model.config, model.tensors(), tokenizer.to_str(), config.layout, **notes)

    task = loop.Task(
        model=model,
        optimizer=torch.optim.Adafactor([p for p in model.parameters() if p.requires_grad], lr=config.learning_rate),
        batches=batches,
        split=lambda batch: by_length(batch, config.part_tokens),
        loss=loss,
        schedule=lambda done: linear_decay(done, config.decay),
        save=save,
        evaluate=evaluate,
        value=value,
        count=lambda batch: len(batch) * max(len(row.source) for row in batch),
        unit="tokens",
    )
    state = loop.run(task, config, show)
    return model if state.best is None else from_files(load_folder(config.out / loop.BEST)).eval()


def held_out_loss(model: Seq2Seq, held: Sequence[TokenExample], config: TrainConfig) -> float:
    """The cross-entropy of a target's token."""
    model.eval()
    with torch.no_grad():
        total = sum(model(part).item() for part in by_length(held, config.part_tokens))
    return float(total / sum(row.size for row in held))
