"""Teaching the pointer to look before it leaps: which likely refinement pays, seen what it finds (torch)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orienteer.agents.pointer.labels import Label, Moment
from orienteer.agents.pointer.preview import CANDIDATE_FEATURES, HIT_FEATURES, Preview
from orienteer.agents.pointer.preview_head import PREVIEW_LAYERS
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.reader.errors import TrainingError

LEAST_QUESTIONS = 20  # with fewer, nothing would be learned that holds elsewhere


@dataclass(frozen=True, slots=True)
class Lesson:
    """A moment's likeliest refinements: what they find, how likely they were, and the gain of each."""

    question_id: str
    preview: Preview
    logs: NDArray[np.float32]  # [candidates]
    gains: NDArray[np.float32]  # [candidates], 0 where Rocchio recorded none


@dataclass(frozen=True, slots=True)
class LookConfig:
    """held_out: one question of so many judges the epochs; the best epoch is kept."""

    epochs: int = 30
    batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    temperature: float = 0.05
    held_out: int = 10
    seed: int = 0


class PreviewModel(nn.Module):
    """Each new hit is weighed alone, their sum and best go beside what is known of the refinement."""

    def __init__(self, hit: int = 32, mixed: int = 16, hidden: int = 48) -> None:
        super().__init__()
        self.hit = nn.Linear(len(HIT_FEATURES), hit)
        self.mixed = nn.Linear(hit, mixed)
        self.candidate = nn.Linear(2 * mixed + len(CANDIDATE_FEATURES), hidden)
        self.worth = nn.Linear(hidden, 1)
        nn.init.zeros_(self.worth.weight)  # training begins with the pointer's own opinion

    def forward(self, of_hits: Tensor, new: Tensor, of_candidates: Tensor) -> Tensor:
        """[…, candidates]"""
        each = torch.relu(self.mixed(torch.relu(self.hit(of_hits)))) * new.unsqueeze(-1)
        found = torch.cat([each.sum(-2), each.amax(-2), of_candidates], -1)
        worth: Tensor = self.worth(torch.relu(self.candidate(found))).squeeze(-1)
        return worth

    def tensors(self) -> dict[str, NDArray[Any]]:
        """As a pointer's folder holds them."""
        assert {name.split(".")[0] for name in self.state_dict()} == {*PREVIEW_LAYERS}
        return {f"preview.{name}": tensor.numpy(force=True).copy() for name, tensor in self.state_dict().items()}


def lessons(agent: PointerAgent, moments: Sequence[Moment], look: int) -> Iterable[Lesson]:
    """Moments as the agent meets them; one that has nothing to gain among its likeliest refinements teaches nothing."""
    told = [(moment, own) for moment in moments if (own := _own(agent, moment)) is not None and own.gains]
    views = [agent.view(moment.observation) for moment, _ in told]
    for (moment, label), view, scores in zip(told, views, agent.scores(views), strict=True):
        found = agent.choices(view, scores)
        preview = agent.preview(moment.observation, found, look)
        if preview is None:
            continue
        known = {str(refinement): gain for refinement, gain in label.gains}
        gains = np.array([known.get(str(found.refinement(rank)), 0.0) for rank in range(len(preview.new))], np.float32)
        gains *= preview.hopeful  # a gain that was rounded away
        if gains.any():
            yield Lesson(moment.question_id, preview, found.log_probabilities[: len(gains)].astype(np.float32), gains)


def _own(agent: PointerAgent, moment: Moment) -> Label | None:
    return next((label for label in moment.labels if label.grammar == agent.grammar), None)


def train_preview(
    taught: Sequence[Lesson], config: LookConfig, show: Callable[[int, dict[str, float]], None] = lambda *_: None
) -> tuple[PreviewModel, dict[str, float]]:
    """The model of the best epoch and what it brings; `share` is the gain taken, of the best within sight."""
    ids = sorted({lesson.question_id for lesson in taught})
    judges = set(ids[:: config.held_out])
    own = [lesson for lesson in taught if lesson.question_id not in judges]
    held = [lesson for lesson in taught if lesson.question_id in judges]
    if not own or not held:
        raise TrainingError(f"{len(taught)} moments of {len(ids)} questions are too few to learn looking from")
    torch.manual_seed(config.seed)
    generator = np.random.default_rng(config.seed)
    model = PreviewModel()
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.learning_rate * 3, config.epochs * (-(-len(own) // config.batch))
    )
    judged = _batch(held, config)
    best = {**_measures(model, judged), "epoch": 0.0}
    best["share before"] = best["share"]
    kept = copy.deepcopy(model.state_dict())
    for epoch in range(1, config.epochs + 1):
        order = generator.permutation(len(own))
        for start in range(0, len(own), config.batch):
            loss, _ = _loss(model, _batch([own[i] for i in order[start : start + config.batch]], config))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        found = _measures(model, judged)
        show(epoch, found)
        if found["share"] > best["share"]:
            best = {**best, **found, "epoch": float(epoch)}
            kept = copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model, best


@dataclass(frozen=True, slots=True)
class _Batch:
    of_hits: Tensor
    new: Tensor
    of_candidates: Tensor
    logs: Tensor  # -inf where there is no candidate, or none that finds anything new
    gains: Tensor
    targets: Tensor


def _batch(taught: Sequence[Lesson], config: LookConfig) -> _Batch:
    size = max(len(lesson.logs) for lesson in taught)

    def stacked(parts: Iterable[NDArray[Any]], fill: float = 0.0) -> Tensor:
        rows = [np.pad(p, [(0, size - len(p)), *[(0, 0)] * (p.ndim - 1)], constant_values=fill) for p in parts]
        return torch.from_numpy(np.stack(rows).astype(np.float32))

    gains = stacked(lesson.gains for lesson in taught)
    return _Batch(
        stacked(lesson.preview.of_hits for lesson in taught),
        stacked(lesson.preview.new for lesson in taught),
        stacked(lesson.preview.of_candidates for lesson in taught),
        stacked((np.where(lesson.preview.hopeful, lesson.logs, -np.inf) for lesson in taught), -np.inf),
        gains,
        torch.softmax((gains / config.temperature).masked_fill(gains <= 0, -torch.inf), -1),
    )


def _loss(model: PreviewModel, batch: _Batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy with the soft targets; how much of the best gain the first choice brings."""
    worth = batch.logs + model(batch.of_hits, batch.new, batch.of_candidates)
    logs = torch.log_softmax(worth, -1).masked_fill(batch.targets == 0, 0.0)
    taken = batch.gains.gather(1, worth.argmax(1, keepdim=True)).squeeze(1)
    return -(batch.targets * logs).sum(1).mean(), (taken / batch.gains.amax(1)).mean()


def _measures(model: PreviewModel, batch: _Batch) -> dict[str, float]:
    with torch.no_grad():
        loss, share = _loss(model, batch)
    return {"loss": loss.item(), "share": share.item()}
