"""The training loop of every supervised model: batches in, checkpoints and the best weights out (needs torch).

Each step splits its batch into small parts of like length and hands them to threads, one core each, whose gradients
are added in the parts' order: the result does not depend on who was faster, and a core taken away by another
program slows a step without stopping it. With dropout there is one thread that uses all cores, since its draws come
from one generator; it is seeded again for every part, so that a resumed training draws the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from orienteer.errors import TrainingError
from orienteer.training import checkpoint
from orienteer.training.config import LoopConfig
from orienteer.training.log import TrainingLog

BEST = "best"  # the folder, inside that of the training, of the weights that were judged best

Example = TypeVar("Example")
Cursor = Mapping[str, int]  # a place in the stream of batches, as a checkpoint keeps it


@dataclass(slots=True)
class State:
    """Where training stands, as a checkpoint keeps it."""

    step: int = 0
    spent: float = 0.0  # seconds
    best: float | None = None
    misses: int = 0  # judgements since the best one
    judged_at: int = 0
    cursor: Cursor = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Example]):
    """What a model brings to the loop.

    batches    from a cursor and a step on: endless batches, each with the cursor after it
    split      a batch as the parts that a thread takes at once
    loss       of a part of a batch, so scaled that the parts add up to the batch's; and what the log shows of it
    schedule   the learning rate's factor at a fraction of training
    save       writes the model's folder
    evaluate   measures of the current weights; called rarely
    value      of measures: the weights of the greatest value are kept in `BEST`; None: the last weights count
    around     entered while the gradients of a step are computed, given the fraction of training
    count      what the speed counts in a batch, in `unit`
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Callable[[Cursor, int], Iterator[tuple[Cursor, list[Example]]]]
    split: Callable[[list[Example]], Iterable[list[Example]]]
    loss: Callable[[list[Example], list[Example]], tuple[Tensor, Mapping[str, Tensor]]]
    schedule: Callable[[float], float]
    save: Callable[[Path, State, Mapping[str, float]], None]
    evaluate: Callable[[], Mapping[str, float]] = dict
    value: Callable[[Mapping[str, float]], float] | None = None
    around: Callable[[float], AbstractContextManager[None]] = lambda done: nullcontext()
    count: Callable[[list[Example]], int] = len
    unit: str = "examples"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a caller may show: one line a while."""

    step: int
    part_done: float  # of the schedule, 0 to 1
    losses: Mapping[str, float]
    speed: float  # units a second
    unit: str
    dev: Mapping[str, float]

    @property
    def scalars(self) -> Mapping[str, float]:
        """As the log has it."""
        losses = {f"loss/{name}": value for name, value in self.losses.items()}
        dev = {f"dev/{name}": value for name, value in self.dev.items()}
        return {**losses, **dev, f"{self.unit}_per_second": self.speed}

    def __str__(self) -> str:
        values = [*self.losses.items(), *((f"dev {name}", value) for name, value in self.dev.items())]
        shown = "  ".join(f"{name} {value:.3f}" for name, value in values)
        return f"step {self.step}  {self.part_done:.1%}  {shown}  {self.speed:,.1f} {self.unit}/s"


def run(task: Task[Example], config: LoopConfig, show: Callable[[Progress], None] = lambda progress: None) -> State:
    """Trains from the last checkpoint in `config.out`, if there is one, and leaves a model's folder there.

    That folder holds the weights of the greatest value, or the last ones where nothing was judged.
    """
    if not config.steps and not config.minutes:
        raise TrainingError("nothing says when to stop; give steps or minutes")
    model, optimizer = task.model, task.optimizer
    rates = [group["lr"] for group in optimizer.param_groups]
    state = checkpoint.resume(config.out, model, optimizer, State)
    parameters = [p for p in model.parameters() if p.requires_grad]
    log, before, began = TrainingLog(config.out), state.spent, time.monotonic()
    saved = shown = judged = began
    shown_step, count, sums, means = state.step, 0, dict[str, float](), dict[str, float]()

    def judge() -> Mapping[str, float]:
        state.judged_at = state.step
        measures = task.evaluate()
        if measures and task.value is not None:
            value = task.value(measures)
            state.misses += 1
            if state.best is None or value > state.best:
                state.best, state.misses = value, 0
                task.save(config.out / BEST, state, measures)
        return measures

    def report(done: float, dev: Mapping[str, float]) -> None:
        nonlocal shown, shown_step, count, sums, means
        if state.step > shown_step:
            means = {name: total / (state.step - shown_step) for name, total in sums.items()}
        progress = Progress(state.step, done, means, count / max(1e-9, now - shown), task.unit, dev)
        log.add(progress.step, progress.scalars)
        show(progress)
        shown, shown_step, count, sums = time.monotonic(), state.step, 0, {}

    workers = 1 if config.dropout else config.threads
    torch.set_num_threads(config.threads // workers)
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(config.threads // workers,)) as pool:
        for cursor, batch in task.batches(state.cursor, state.step):
            now = time.monotonic()
            state.spent = before + now - began
            done = state.step / config.steps if config.steps else state.spent / (60 * config.minutes)
            if done >= 1 or (config.patience and state.misses >= config.patience):
                break
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * task.schedule(done)
            model.train(config.dropout > 0)
            with task.around(done):
                work = [
                    pool.submit(_gradients, task, parameters, part, batch, (config.seed, state.step, number))
                    for number, part in enumerate(task.split(batch))
                ]
                for number, each in enumerate(work):
                    gradients, losses = each.result()
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        if number and parameter.grad is not None:
                            parameter.grad.add_(gradient)
                        else:
                            parameter.grad = gradient
                    sums = {name: sums.get(name, 0.0) + loss for name, loss in losses.items()}
            if config.clip:
                nn.utils.clip_grad_norm_(parameters, config.clip, foreach=True)
            optimizer.step()
            state.step += 1
            state.cursor = cursor
            count += task.count(batch)

            now = time.monotonic()
            last = bool(config.steps) and state.step >= config.steps
            waited = now - judged > 60 * config.judge_minutes
            due = state.step % config.judge_steps == 0 if config.judge_steps else waited
            dev: Mapping[str, float] = {}
            if due or last:
                dev, judged = judge(), time.monotonic()
            if dev or now - shown > config.show_seconds or last:
                report(done, dev)
            if dev or now - saved > 60 * config.checkpoint_minutes:
                saved = time.monotonic()
                state.spent = before + saved - began
                checkpoint.save(config.out, model, optimizer, asdict(state))
        if state.judged_at < state.step:
            now = time.monotonic()
            report(1.0, judge())

    state.spent = before + time.monotonic() - began
    checkpoint.save(config.out, model, optimizer, asdict(state))
    if state.best is None:
        task.save(config.out, state, {})
    else:
        checkpoint.copy_model(config.out / BEST, config.out)
    model.eval()
    return state


def _gradients(
    task: Task[Example],
    parameters: Sequence[nn.Parameter],
    part: list[Example],
    batch: list[Example],
    seeds: tuple[int, int, int],
) -> tuple[list[Tensor], dict[str, float]]:
    if task.model.training:
        seed, step, number = seeds
        torch.manual_seed((seed * 1_000_003 + step) * 1_009 + number)
    loss, shown = task.loss(part, batch)
    computed = torch.autograd.grad(loss, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, computed, strict=True)]
    return gradients, {name: value.item() for name, value in shown.items()}


def parameter_groups(parameters: Iterable[nn.Parameter], rate: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups of an optimizer: matrices decay, vectors do not."""
    trained = [p for p in parameters if p.requires_grad]
    groups = [([p for p in trained if p.ndim > 1], weight_decay), ([p for p in trained if p.ndim <= 1], 0.0)]
    return [{"params": params, "weight_decay": decay, "lr": rate} for params, decay in groups if params]


def warmup_cosine(done: float, warmup: float) -> float:
    """The learning rate's factor at a fraction of training: up in a line, down in a cosine."""
    if done < warmup:
        return max(done, warmup / 100) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warmup) / (1 - warmup))))


def linear_decay(done: float, decay: float) -> float:
    """The learning rate's factor at a fraction of training: constant, then over the last `decay` down in a line."""
    return min(1.0, max(0.0, (1 - done) / decay)) if decay else 1.0
