"""Training the pointer, one file from top to bottom: examples in, a folder with weights out (needs `[train]`).

Each step cuts its batch into small parts of like length and hands them to threads, one core each, whose gradients
are added in the parts' order: the result does not depend on who was faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from orienteer.agents.pointer.batches import StreamConfig, batches, hold_out
from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.examples import Example
from orienteer.agents.pointer.losses import losses
from orienteer.agents.pointer.model import PointerModel
from orienteer.agents.pointer.model_files import Layout, PointerFiles, load_folder, save_folder
from orienteer.errors import TrainingError
from orienteer.models.model_folder import quantise
from orienteer.reader.model import load_tokenizer
from orienteer.reader.train import Progress, schedule
from orienteer.training import checkpoint
from orienteer.training.log import Board

BEST = "best"  # the folder, inside that of the training, of the weights that were judged best

Judgement = Callable[[PointerFiles], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    base: str  # a BERT, a reader or a pointer: folder or hub name
    out: Path
    layout: Layout = field(default_factory=Layout)
    steps: int = 0  # a schedule by steps resumes to the same weights; 0: by `minutes`
    minutes: float = 0.0  # of training in all, kills included
    learning_rate: float = 1e-4
    head_factor: float = 5.0  # the new head learns so much faster
    warmup: float = 0.04  # of the schedule
    weight_decay: float = 0.01
    clip: float = 1.0
    temperature: float = 0.05  # of the soft targets, in units of the score
    gain_weight: float = 1.0
    part: int = 4  # sequences a thread takes at once
    threads: int = 2
    freeze_embeddings: bool = True  # of words and places; marks and kinds always learn
    freeze_layers: int = 0
    layers: tuple[int, ...] = ()  # of the base that are kept, counted from 0; none named: all
    checkpoint_minutes: float = 3.0
    judge_minutes: float = 15.0
    judge_steps: int = 0  # instead of minutes
    patience: int = 0  # judgements without a new best one after which training stops; 0: never
    show_seconds: float = 30.0
    stream: StreamConfig = field(default_factory=StreamConfig)
    seed: int = 0


@dataclass(slots=True)
class _Place:
    """Where training stands, as a checkpoint keeps it."""

    step: int = 0
    spent: float = 0.0
    best: float | None = None
    misses: int = 0  # judgements since the best one
    judged_at: int = 0


def train(
    examples: Sequence[Example],
    config: TrainConfig,
    judge: Judgement | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> PointerModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a pointer's folder there.

    The folder holds the weights that were judged best: by `judge`, or without one by the loss on questions held out.
    """
    if not config.steps and not config.minutes:
        raise TrainingError("nothing says when to stop; give steps or minutes")
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)  # the threads of a step are ours, see above
    tokenizer = load_tokenizer(config.base)
    model = PointerModel.from_pretrained(config.base)
    if config.layers:
        model.keep_layers(config.layers)
    _freeze(model, config)
    optimiser = torch.optim.AdamW(_groups(model, config), lr=config.learning_rate, fused=True)
    place = _Place(**{k: v for k, v in checkpoint.resume(config.out, model, optimiser).items() if k != "config"})
    learned, held = hold_out(examples)
    stream = batches(learned, replace(config.stream, seed=config.seed))
    parameters = [p for p in model.parameters() if p.requires_grad]
    board = Board(config.out)
    already, began = place.spent, time.monotonic()
    saved = shown = judged = began
    seen, shown_step, sums = 0, place.step, dict.fromkeys(("policy", "gain", "share"), 0.0)

    def judgement() -> Mapping[str, float]:
        measures = dict(held_out_measures(model, held, config))
        if judge is not None:
            measures |= judge(model.files(tokenizer, config.layout))
        _keep_best(model, tokenizer, config, place, measures)
        return measures

    with ThreadPoolExecutor(config.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
        for batch in islice(stream, place.step, None):
            place.spent = already + time.monotonic() - began
            done = place.step / config.steps if config.steps else place.spent / (60 * config.minutes)
            if done >= 1 or (config.patience and place.misses >= config.patience):
                break
            for group in optimiser.param_groups:
                group["lr"] = group["rate"] * schedule(done, config.warmup)
            parts = [batch[at : at + config.part] for at in range(0, len(batch), config.part)]
            works = [workers.submit(_gradients, model, parameters, part, len(batch), config) for part in parts]
            for number, work in enumerate(works):
                gradients, found = work.result()
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if number and parameter.grad is not None:
                        parameter.grad.add_(gradient)
                    else:
                        parameter.grad = gradient
                sums = {name: sums[name] + found[name] for name in sums}
            torch.nn.utils.clip_grad_norm_(parameters, config.clip, foreach=True)
            optimiser.step()
            place.step += 1
            seen += len(batch)

            now = time.monotonic()
            last = bool(config.steps) and place.step >= config.steps
            waited = now - judged > 60 * config.judge_minutes
            due = place.step % config.judge_steps == 0 if config.judge_steps else waited
            dev: Mapping[str, float] = {}
            if (due or last) and place.judged_at < place.step:
                place.judged_at = place.step
                dev, judged = judgement(), time.monotonic()
            if dev or now - shown > config.show_seconds or last:
                means = {name: total / (place.step - shown_step) for name, total in sums.items()}
                progress = Progress(place.step, done, means, seen / max(1e-9, now - shown), dev)
                board.show(progress.step, progress.scalars)
                show(progress)
                shown, shown_step, seen, sums = time.monotonic(), place.step, 0, dict.fromkeys(sums, 0.0)
            if dev or now - saved > 60 * config.checkpoint_minutes:
                place.spent = already + time.monotonic() - began
                checkpoint.save(config.out, model, optimiser, {**asdict(place), "config": _told(config)})
                saved = time.monotonic()
        if place.judged_at < place.step:
            place.judged_at = place.step
            board.show(place.step, {f"dev/{name}": value for name, value in judgement().items()})

    checkpoint.save(config.out, model, optimiser, {**asdict(place), "config": _told(config)})
    return _finish(model, tokenizer, config, place)


def _freeze(model: PointerModel, config: TrainConfig) -> None:
    if config.freeze_embeddings:
        model.encoder.embeddings.requires_grad_(False)
        model.encoder.embeddings.token_type_embeddings.requires_grad_(True)
    layers = model.encoder.encoder.layer
    if not 0 <= config.freeze_layers <= len(layers):
        raise TrainingError(f"{config.freeze_layers} layers to freeze; the encoder has {len(layers)}")
    for layer in layers[: config.freeze_layers]:
        layer.requires_grad_(False)


def _groups(model: PointerModel, config: TrainConfig) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not; the head has a learning rate of its own."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = []
    for factor, old in ((1.0, True), (config.head_factor, False)):
        for decay, matrix in ((config.weight_decay, True), (0.0, False)):
            own = [p for name, p in trained if name.startswith("encoder.") == old and (p.ndim > 1) == matrix]
            groups.append({"params": own, "weight_decay": decay, "rate": factor * config.learning_rate})
    return [group for group in groups if group["params"]]


def _gradients(
    model: PointerModel,
    parameters: Sequence[torch.nn.Parameter],
    part: Sequence[Example],
    size: int,
    config: TrainConfig,
) -> tuple[list[Tensor], dict[str, float]]:
    policy, gain, share = (each / size for each in losses(model, part, config.temperature))
    found = torch.autograd.grad(policy + config.gain_weight * gain, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    return gradients, {"policy": policy.item(), "gain": gain.item(), "share": share.item()}


def held_out_measures(model: PointerModel, held: Sequence[Example], config: TrainConfig) -> dict[str, float]:
    """Losses on questions held out; `share` is of those moments that have something to gain."""
    if not held:
        return {}
    order = sorted(held, key=lambda example: len(example.ids))
    sums = [0.0, 0.0, 0.0]
    for at in range(0, len(order), config.part):
        with torch.no_grad():
            found = losses(model, order[at : at + config.part], config.temperature)
        sums = [total + each.item() for total, each in zip(sums, found, strict=True)]
    refining = max(1, sum(not example.only_stops for example in held))
    return {"policy": sums[0] / len(held), "gain": sums[1] / len(held), "share": sums[2] / refining}


def _keep_best(
    model: PointerModel, tokenizer: Tokenizer, config: TrainConfig, place: _Place, measures: Mapping[str, float]
) -> None:
    if not measures:
        return
    worth = measures["reward"] if "reward" in measures else -measures["policy"]
    if place.best is not None and worth <= place.best:
        place.misses += 1
        return
    place.best, place.misses = worth, 0
    notes = _notes(config, place, measures)
    model.save_pretrained(config.out / BEST, tokenizer, config.layout, **notes)


def _finish(model: PointerModel, tokenizer: Tokenizer, config: TrainConfig, place: _Place) -> PointerModel:
    """The folder gets the best weights, or where nothing was judged the last."""
    if place.best is None:
        model.save_pretrained(config.out, tokenizer, config.layout, **_notes(config, place, {}))
    else:
        files = load_folder(config.out / BEST)
        save_folder(
            config.out, files.config, files.tensors, files.tokenizer, files.layout, files.decoding, **files.notes
        )
        model = PointerModel.from_pretrained(config.out)
    model.eval()
    return model


def to_int8(
    trained: Path, out: Path, decoding: Decoding | None = None, more: Mapping[str, NDArray[Any]] | None = None,
    **notes: Any,
) -> None:  # fmt: skip
    """The same pointer with int8 weights, for playing and shipping; `more` tensors and notes go beside its own."""
    files = load_folder(trained)
    tensors = quantise({**files.tensors, **(more or {})})
    told = {**files.notes, **notes}
    save_folder(out, files.config, tensors, files.tokenizer, files.layout, decoding or files.decoding, **told)


def _notes(config: TrainConfig, place: _Place, measures: Mapping[str, float]) -> dict[str, Any]:
    return {"step": place.step, "seconds": round(place.spent), "measures": dict(measures), "training": _told(config)}


def _told(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a folder tells it: the base by its name alone, so that no path is shipped."""
    told = asdict(config)
    del told["out"], told["layout"]
    return {**told, "base": Path(config.base).name}
