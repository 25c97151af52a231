"""Training a model of text to text, one file from top to bottom: batches in, a folder with weights out (`[train]`).

Each step cuts its batch into parts and hands them to threads, one core each, whose gradients are added in the parts'
order: the result does not depend on who was faster. With dropout there is one thread that uses all cores, since its
draws come from one generator; it is seeded anew for every part, so that a resumed training draws the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from orienteer.agents.t5.dataset import StreamPosition, TokenExample, by_length
from orienteer.agents.t5.model import Seq2Seq, from_files
from orienteer.agents.t5.model_files import Codec, ModelFiles, Purpose, load_folder, save_folder
from orienteer.errors import TrainingError
from orienteer.training import checkpoint
from orienteer.training.log import Board

BEST = "best"  # the folder, inside that of the training, of the weights that were judged best

_WORTH = ("reward", "EM-T5")  # what a judgement is judged by, where it has it; the loss otherwise

Stream = Callable[[StreamPosition], Iterator[tuple[StreamPosition, list[TokenExample]]]]
Judgement = Callable[[ModelFiles], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    out: Path
    purpose: Purpose = "t5"
    layout: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0  # a schedule by steps resumes to the same weights; 0: by `minutes`
    minutes: float = 0.0  # of training in all, kills included
    learning_rate: float = 5e-4  # AdaFactor's: relative to each matrix's own size
    decay: float = 0.0  # the last part of the schedule in which the rate falls to nothing; 0: constant, as in the paper
    dropout: float = 0.0  # as the model was made with
    part_tokens: int = 2048  # of the encoder, that a thread takes at once
    threads: int = 2
    freeze_words: bool = False
    freeze_encoder: bool = False  # the decoder alone learns, many times as fast
    checkpoint_minutes: float = 3.0
    judge_minutes: float = 20.0
    judge_steps: int = 0  # instead of minutes
    patience: int = 0  # judgements without a new best one after which training stops; 0: never
    show_seconds: float = 30.0
    seed: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)  # told in the folder


@dataclass(frozen=True, slots=True)
class Progress:
    """What a caller may show: one line a while; `loss` is that of a token."""

    step: int
    part_done: float  # of the schedule, 0 to 1
    loss: float
    tokens_per_second: float  # of the encoder, padding included
    dev: Mapping[str, float]

    @property
    def scalars(self) -> Mapping[str, float]:
        """As a board shows it."""
        dev = {f"dev/{name}": value for name, value in self.dev.items()}
        return {"loss/token": self.loss, **dev, "tokens_per_second": self.tokens_per_second}


@dataclass(slots=True)
class _State:
    """Where training stands, as a checkpoint keeps it."""

    step: int = 0
    spent: float = 0.0
    best: float | None = None
    misses: int = 0  # judgements since the best one
    judged_at: int = 0
    epoch: int = 0
    pool: int = 0
    batch: int = 0


def train(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    stream: Stream,
    held: Sequence[TokenExample],
    config: TrainConfig,
    judge: Judgement | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Seq2Seq:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a model's folder there.

    The folder holds the weights that were judged best: by `judge`, or without one by the loss on the rows held out.
    """
    if not config.steps and not config.minutes:
        raise TrainingError("nothing says when to stop; give steps or minutes")
    torch.manual_seed(config.seed)
    if config.freeze_words:
        model.freeze_words()
    if config.freeze_encoder:
        model.freeze_encoder()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adafactor(parameters, lr=config.learning_rate)
    kept = checkpoint.resume(config.out, model, optimiser)
    if config.freeze_encoder:
        model.cache_encoder(Codec(tokenizer, model.config).vocabulary, config.threads)
    state = _State(**{key: value for key, value in kept.items() if key != "config"})
    board, already, began = Board(config.out), state.spent, time.monotonic()
    saved = shown = judged = began
    loss = tokens = written = told = 0.0

    def judgement() -> Mapping[str, float]:
        measures: dict[str, float] = {"loss": held_out_loss(model, held, config)} if held else {}
        if judge is not None:
            model.eval()
            measures |= judge(model.files(config.purpose, tokenizer.to_str(), dict(config.layout)))
        _keep_best(model, tokenizer, config, state, measures)
        return measures

    def tell(done: float, dev: Mapping[str, float], speed: float = 0.0) -> None:
        nonlocal told, loss, written
        if written:
            told, loss, written = loss / written, 0.0, 0.0
        progress = Progress(state.step, done, told, speed, dev)
        board.show(state.step, progress.scalars)
        show(progress)

    def save() -> None:
        state.spent = already + time.monotonic() - began
        checkpoint.save(config.out, model, optimiser, {**asdict(state), "config": _told(config)})

    workers = 1 if config.dropout else config.threads
    torch.set_num_threads(config.threads if config.dropout else 1)
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(config.threads // workers,)) as pool:
        for place, batch in stream(StreamPosition(state.epoch, state.pool, state.batch)):
            state.spent = already + time.monotonic() - began
            done = state.step / config.steps if config.steps else state.spent / (60 * config.minutes)
            if done >= 1 or (config.patience and state.misses >= config.patience):
                break
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * rate(done, config.decay)
            model.train(config.dropout > 0)
            size = sum(row.size for row in batch)
            works = [
                pool.submit(_gradients, model, parameters, part, size, (config.seed, state.step, number))
                for number, part in enumerate(by_length(batch, config.part_tokens))
            ]
            for number, work in enumerate(works):
                gradients, found = work.result()
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = parameter.grad.add_(gradient) if number else gradient
                loss += found
            optimiser.step()
            state.step += 1
            state.epoch, state.pool, state.batch = place.epoch, place.pool, place.batch
            written += size
            tokens += len(batch) * max(len(row.source) for row in batch)

            now = time.monotonic()
            last = bool(config.steps) and state.step >= config.steps
            waited = now - judged > 60 * config.judge_minutes
            due = state.step % config.judge_steps == 0 if config.judge_steps else waited
            dev: Mapping[str, float] = {}
            if (due or last) and state.judged_at < state.step:
                state.judged_at = state.step
                dev, judged = judgement(), time.monotonic()
            if dev or now - shown > config.show_seconds or last:
                tell(done, dev, tokens / max(1e-9, now - shown))
                shown, tokens = time.monotonic(), 0.0
            if dev or now - saved > 60 * config.checkpoint_minutes:
                save()
                saved = time.monotonic()
        if state.judged_at < state.step:
            state.judged_at = state.step
            tell(1.0, judgement())
    save()
    return _finish(model, tokenizer, config, state)


def rate(done: float, decay: float) -> float:
    """The learning rate's factor when a part `done` of training is over: constant, then down in a line."""
    return min(1.0, max(0.0, (1 - done) / decay)) if decay else 1.0


def _gradients(
    model: Seq2Seq,
    parameters: Sequence[torch.nn.Parameter],
    part: Sequence[TokenExample],
    size: float,
    seeds: tuple[int, ...],
) -> tuple[list[Tensor], float]:
    if model.training:
        seed, step, number = seeds
        torch.manual_seed((seed * 1_000_003 + step) * 1_009 + number)
    loss = model(part)
    found = torch.autograd.grad(loss / size, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    return gradients, loss.item()


def held_out_loss(model: Seq2Seq, held: Sequence[TokenExample], config: TrainConfig) -> float:
    """The cross-entropy of a target's token."""
    model.eval()
    with torch.no_grad():
        total = sum(model(part).item() for part in by_length(held, config.part_tokens))
    return float(total / sum(row.size for row in held))


def _keep_best(
    model: Seq2Seq, tokenizer: Tokenizer, config: TrainConfig, state: _State, measures: Mapping[str, float]
) -> None:
    if not measures:
        return
    worth = next((measures[name] for name in _WORTH if name in measures), None)
    worth = -measures["loss"] if worth is None else worth
    if state.best is not None and worth <= state.best:
        state.misses += 1
        return
    state.best, state.misses = worth, 0
    save_model(config.out / BEST, model, tokenizer, config, **_notes(config, state, measures))


def save_model(folder: Path, model: Seq2Seq, tokenizer: Tokenizer, config: TrainConfig, **notes: Any) -> None:
    """A model's folder with float32 weights."""
    save_folder(folder, config.purpose, model.config, model.tensors(), tokenizer.to_str(), config.layout, **notes)


def _finish(model: Seq2Seq, tokenizer: Tokenizer, config: TrainConfig, state: _State) -> Seq2Seq:
    """The folder gets the best weights, or where nothing was judged the last."""
    if state.best is None:
        save_model(config.out, model, tokenizer, config, **_notes(config, state, {}))
    else:
        files = load_folder(config.out / BEST)
        save_folder(
            config.out,
            files.purpose,
            files.config,
            files.tensors,
            files.tokenizer,
            files.entry["layout"],
            **files.notes,
        )
        model = from_files(files)
    model.eval()
    return model


def _notes(config: TrainConfig, state: _State, measures: Mapping[str, float]) -> dict[str, Any]:
    return {
        "step": state.step,
        "epoch": state.epoch,
        "seconds": round(state.spent),
        "measures": dict(measures),
        "training": _told(config),
    }


def _told(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a folder tells it, without a path of this machine."""
    told = asdict(config)
    del told["out"], told["layout"]
    return told
