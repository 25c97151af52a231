"""Training the pointer: examples in, a folder with weights out (needs `[train]`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orienteer.agents.action_space import Decoding
from orienteer.agents.pointer.config import TrainConfig
from orienteer.agents.pointer.dataset import Example, batches, hold_out
from orienteer.agents.pointer.model import PointerModel, losses
from orienteer.agents.pointer.model_files import PointerFiles, load_folder, save_folder
from orienteer.errors import TrainingError
from orienteer.models.model_folder import quantise
from orienteer.reader.model import load_tokenizer
from orienteer.training import loop
from orienteer.training.config import described
from orienteer.training.loop import Cursor, Progress, State, parameter_groups, warmup_cosine

Judge = Callable[[PointerFiles], Mapping[str, float]]


def train(
    examples: Sequence[Example],
    config: TrainConfig,
    judge: Judge | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> PointerModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a pointer's folder there.

    The folder holds the weights that were judged best: by `judge`, or without one by the loss on questions held out.
    """
    torch.manual_seed(config.seed)
    tokenizer = load_tokenizer(config.base)
    model = PointerModel.from_pretrained(config.base)
    if config.layers:
        model.keep_layers(config.layers)
    _freeze(model, config)
    learned, held = hold_out(examples)

    def stream(_: Cursor, step: int) -> Iterator[tuple[Cursor, list[Example]]]:
        return (({}, batch) for batch in islice(batches(learned, replace(config.stream, seed=config.seed)), step, None))

    def loss(part: list[Example], batch: list[Example]) -> tuple[Tensor, Mapping[str, Tensor]]:
        policy, gain, share = (each / len(batch) for each in losses(model, part, config.temperature))
        return policy + config.gain_weight * gain, {"policy": policy, "gain": gain, "share": share}

    def evaluate() -> Mapping[str, float]:
        judged = judge(model.files(tokenizer, config.layout)) if judge is not None else {}
        return {**held_out_measures(model, held, config), **judged}

    def save(folder: Path, state: State, measures: Mapping[str, float]) -> None:
        model.save_pretrained(
            folder, tokenizer, config.layout, step=state.step, seconds=round(state.spent), measures=dict(measures),
            training=described(config),
        )  # fmt: skip

    encoder, head = (
        [p for name, p in model.named_parameters() if name.startswith("encoder.") == old] for old in (True, False)
    )
    groups = parameter_groups(encoder, config.learning_rate, config.weight_decay)
    groups += parameter_groups(head, config.head_factor * config.learning_rate, config.weight_decay)
    task = loop.Task(
        model=model,
        optimizer=torch.optim.AdamW(groups, fused=True),
        batches=stream,
        split=lambda batch: [batch[at : at + config.part] for at in range(0, len(batch), config.part)],
        loss=loss,
        schedule=lambda done: warmup_cosine(done, config.warmup),
        save=save,
        evaluate=evaluate,
        value=lambda measures: measures["reward"] if "reward" in measures else -measures["policy"],
    )
    state = loop.run(task, config, show)
    return model if state.best is None else PointerModel.from_pretrained(config.out).eval()


def _freeze(model: PointerModel, config: TrainConfig) -> None:
    if config.freeze_embeddings:
        model.encoder.embeddings.requires_grad_(False)
        model.encoder.embeddings.token_type_embeddings.requires_grad_(True)
    layers = model.encoder.encoder.layer
    if not 0 <= config.freeze_layers <= len(layers):
        raise TrainingError(f"{config.freeze_layers} layers to freeze; the encoder has {len(layers)}")
    for layer in layers[: config.freeze_layers]:
        layer.requires_grad_(False)


def held_out_measures(model: PointerModel, held: Sequence[Example], config: TrainConfig) -> dict[str, float]:
    """Losses on questions held out; `share` is of those states that have something to gain."""
    if not held:
        return {}
    order = sorted(held, key=lambda example: len(example.ids))
    sums = [0.0, 0.0, 0.0]
    for at in range(0, len(order), config.part):
        with torch.no_grad():
            summed = losses(model, order[at : at + config.part], config.temperature)
        sums = [total + each.item() for total, each in zip(sums, summed, strict=True)]
    refining = max(1, sum(not example.only_stops for example in held))
    return {"policy": sums[0] / len(held), "gain": sums[1] / len(held), "share": sums[2] / refining}


def to_int8(
    trained: Path, out: Path, decoding: Decoding | None = None, more: Mapping[str, NDArray[Any]] | None = None,
    **notes: Any,
) -> None:  # fmt: skip
    """The same pointer with int8 weights, for playing and shipping; `more` tensors and notes go beside its own."""
    files = load_folder(trained)
    tensors, notes = quantise({**files.tensors, **(more or {})}), {**files.notes, **notes}
    save_folder(out, files.config, tensors, files.tokenizer, files.layout, decoding or files.decoding, **notes)
