"""Teaching a pointer to look: a small model of what passages would bring, from lessons (torch)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.lookahead.rollouts import CandidateLabels, RolloutConfig, collect_rollouts
from orienteer.agents.lookahead.value_model import CLIP, PREFIX, logits
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.pointer.dataset import key
from orienteer.agents.pointer.model_files import PointerFiles
from orienteer.data.passage import Question
from orienteer.engine.protocol import fingerprint_of
from orienteer.errors import TrainingError
from orienteer.session import Environment

LEAST_QUESTIONS = 20  # with fewer, nothing would be learned that holds elsewhere
_NARROWEST = 0.15  # a feature that hardly varied in the lessons must not count for much where it does


@dataclass(frozen=True, slots=True)
class ValueModelConfig:
    """held_out: one question of so many judges the epochs; the best epoch is kept."""

    epochs: int = 2
    batch: int = 2048
    learning_rate: float = 3e-3
    weight_decay: float = 1.0
    of_ps: float = 0.05  # weight of the loss of PS beside that of holding the answer
    held_out: int = 8
    seed: int = 0


class ValueNetwork(nn.Module):
    """Features to three numbers: a logit of holding the answer, the logit of PS if it does not and if it does."""

    def __init__(
        self, centre: NDArray[np.float32], width: NDArray[np.float32], first: int = 64, second: int = 32
    ) -> None:
        super().__init__()
        self.register_buffer("centre", torch.from_numpy(centre))
        self.register_buffer("width", torch.from_numpy(width))
        self.first, self.second = nn.Linear(len(centre), first), nn.Linear(first, second)
        self.told = nn.Linear(second, 3)  # the outputs; the name is that of model folders
        self.spread = nn.Parameter(torch.zeros(2))

    def forward(self, features: Tensor) -> Tensor:
        hidden = ((features - self.centre) / self.width).clamp(-CLIP, CLIP)
        outputs: Tensor = self.told(torch.relu(self.second(torch.relu(self.first(hidden)))))
        return outputs

    def tensors(self) -> dict[str, NDArray[Any]]:
        """As a pointer's folder holds them."""
        return {f"{PREFIX}{name}": tensor.numpy(force=True) for name, tensor in self.state_dict().items()}


def train_lookahead(
    files: PointerFiles,
    environment: Environment,
    questions: Sequence[Question],
    folder: Path,
    config: ValueModelConfig | None = None,
    threads: int = 1,
    show: Callable[[str], object] = lambda line: None,
) -> tuple[PointerFiles, dict[str, float]]:
    """The pointer with a newly trained value model, and its measures on held-out questions.

    Rollouts are kept in `folder`. The first quarter of the questions is played without a value model, the rest with
    the one learned from that quarter.
    """
    config = config or ValueModelConfig()
    rollout = RolloutConfig(seed=config.seed)
    files = replace(files, tensors={n: value for n, value in files.tensors.items() if not n.startswith(PREFIX)})
    world = f"{fingerprint_of(environment.engine)} {fingerprint_of(environment.reader)} {environment.settings}"
    taught: list[CandidateLabels] = []
    measured: dict[str, float] = {}
    first = -(-len(questions) // 4)
    for some in (questions[:first], questions[first:]):
        agent = PointerAgent(files, environment.engine, threads=threads)
        learned = [value.tobytes() for name, value in sorted(files.tensors.items()) if name.startswith(PREFIX)]
        name = key(files.fingerprint, world, *learned, "\n".join(question.id for question in some), rollout.key)
        tell = partial(_played, show, len(some))
        taught += collect_rollouts(folder / f"lessons-{name}", environment, agent, some, rollout, tell)
        model, measured = train_value_model(taught, config)
        show(f"{len(taught):,} states: " + ", ".join(f"{name} {value:.3f}" for name, value in measured.items()))
        files = replace(files, tensors={**files.tensors, **model.tensors()})
    return files, {"states": float(len(taught)), **measured}


def _played(show: Callable[[str], object], count: int, done: int) -> None:
    show(f"{done} of {count} questions played")


def train_value_model(
    taught: Sequence[CandidateLabels],
    config: ValueModelConfig,
    show: Callable[[int, dict[str, float]], None] = lambda *_: None,
) -> tuple[ValueNetwork, dict[str, float]]:
    """The model of the best epoch, and how it does on questions held out."""
    ids = sorted({lesson.question_id for lesson in taught})
    judges = set(ids[:: config.held_out])
    training = [lesson for lesson in taught if lesson.question_id not in judges]
    held = [lesson for lesson in taught if lesson.question_id in judges]
    if len(ids) < LEAST_QUESTIONS:
        raise TrainingError(f"{len(taught)} states of {len(ids)} questions are too few to train a value model")
    torch.manual_seed(config.seed)
    features, right, ps = _stacked(training)
    model = ValueNetwork(features.mean(0), np.maximum(features.std(0), _NARROWEST))
    data = tuple(map(torch.from_numpy, (features, right, ps)))
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    steps = config.epochs * -(-len(features) // config.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, steps)
    generator = np.random.default_rng(config.seed)
    best: dict[str, float] = {}
    kept: dict[str, Any] = {}
    for epoch in range(1, config.epochs + 1):
        order = torch.from_numpy(generator.permutation(len(features)))
        for rows in order.split(config.batch):
            loss = _loss(model, data[0][rows], data[1][rows], data[2][rows], config.of_ps)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        measured = {"epoch": float(epoch), **measures(model, held)}
        show(epoch, measured)
        if not best or measured["loss"] < best["loss"]:
            best, kept = measured, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model, best


def _stacked(taught: Sequence[CandidateLabels]) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    features = np.concatenate([lesson.features for lesson in taught]).astype(np.float32)
    assert features.shape[1] == len(FEATURES)
    right = np.concatenate([lesson.right for lesson in taught]).astype(np.float32)
    ps = np.concatenate([lesson.ps for lesson in taught])
    return features, right, np.where(np.isnan(ps), np.nan, logits(np.nan_to_num(ps, nan=0.5))).astype(np.float32)


def _loss(model: ValueNetwork, features: Tensor, right: Tensor, ps: Tensor, of_ps: float) -> Tensor:
    outputs = model(features)
    loss = nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], right)
    read = ~ps.isnan()
    if read.any():
        kind = right[read].long()
        off = (ps[read] - outputs[read, 1:].gather(1, kind[:, None])[:, 0]) / model.spread[kind].exp()
        loss = loss + of_ps * (model.spread[kind] + off.square() / 2).mean()
    return loss


def measures(model: ValueNetwork, taught: Sequence[CandidateLabels]) -> dict[str, float]:
    """loss; AUC of holding the answer over a state's passages; right ones among the ten most promising."""
    features, right, _ = _stacked(taught)
    with torch.no_grad():
        outputs = model(torch.from_numpy(features))[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(outputs, torch.from_numpy(right)).item()
    areas, among = [], []
    ends = np.cumsum([len(lesson.right) for lesson in taught])
    for lesson, values in zip(taught, np.split(outputs.numpy(), ends[:-1]), strict=True):
        among.append(lesson.right[np.argsort(-values)[:10]].sum())
        if 0 < lesson.right.sum() < len(lesson.right):
            areas.append(_area(values, lesson.right))
    return {"loss": loss, "AUC": float(np.mean(areas or [0.5])), "right of ten": float(np.mean(among))}


def _area(values: NDArray[Any], right: NDArray[np.bool_]) -> float:
    """The share of pairs, one right and one wrong, in which the right one is valued higher."""
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    count = int(right.sum())
    return float((ranks[right].sum() - count * (count - 1) / 2) / (count * (len(right) - count)))
