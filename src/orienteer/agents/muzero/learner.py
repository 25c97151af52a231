"""MuZero's losses along unrollings: policy, value and reward; and the optimiser. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import log_softmax

from orienteer.agents.muzero.batch import INDEX_PIECE, LOCAL_PIECE, RULE, Batch
from orienteer.agents.muzero.config import Support, TrainingConfig
from orienteer.agents.muzero.networks_torch import MuZeroModel, decoded, scaled_gradient, two_hot
from orienteer.agents.muzero.replay import TrajectoryStep
from orienteer.agents.muzero.tries import Trie

# h on steps: summaries [n, size], terms [all terms of all steps, width].
EncodeSteps = Callable[[Sequence[TrajectoryStep]], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over the batch, and the error of the first value by row [B]."""

    total: Tensor
    parts: Mapping[str, float]
    errors: NDArray[np.float64]


def stored_encodings(steps: Sequence[TrajectoryStep]) -> tuple[Tensor, Tensor]:
    """The outputs of a frozen h, as stored when the steps were played."""
    summaries = torch.from_numpy(np.stack([step.summary for step in steps]))
    terms = torch.from_numpy(np.concatenate([step.terms for step in steps]).astype(np.float32))
    return summaries, terms


def losses(
    model: MuZeroModel, batch: Batch, training: TrainingConfig, index: Trie, encode: EncodeSteps = stored_encodings
) -> Losses:
    config = model.config
    summaries, terms = encode(batch.steps)
    keys, embeds = _contexts(model, batch, terms)
    state = model.initial_state(summaries, _tensor(batch.history).long(), _tensor(batch.lengths).long())
    queries, values, rewards = [], [], []
    for position in range(len(batch.kinds) + 1):
        if position:
            actions = _embeds(model, batch, position - 1, embeds)
            state = scaled_gradient(model.dynamics(actions, state), training.hidden_gradient if position > 1 else 1.0)
            rewards.append(model.reward(state[:, : config.lstm]))
        queries.append(model.policy.query(state))
        values.append(model.value(state))
    weight = _tensor(batch.weight)
    # All unrolled positions together weigh as much as the first.
    shares = torch.full((len(queries), 1), 1 / max(1, training.unroll))
    shares[0] = 1.0
    value_loss = _categorical(torch.stack(values), batch.value, batch.has_value, config.value, shares, weight)
    reward_loss = torch.zeros(())
    if rewards:
        reward_loss = _categorical(
            torch.stack(rewards), batch.reward[1:], batch.has_reward[1:], config.reward, shares[1:], weight
        )
    policy_loss, entropy = _policy(model, batch, torch.stack(queries), keys, index, shares, weight)
    total = (
        training.policy_weight * policy_loss + training.value_weight * value_loss + training.reward_weight * reward_loss
    )
    with torch.no_grad():
        errors = (decoded(values[0], config.value) - _tensor(batch.value[0])).numpy().astype(np.float64)
    parts = {
        "policy": policy_loss.item(), "value": value_loss.item(), "reward_loss": reward_loss.item(),
        "entropy": entropy.item(), "total": total.item(), "prior_scale": model.prior_scale.item(),
    }  # fmt: skip
    return Losses(total, parts, errors)


def _contexts(model: MuZeroModel, batch: Batch, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [nodes, head] and embeddings [nodes, embed] of all nodes of the batch's tries."""
    words = model.words[_tensor(batch.pieces).long().clamp(max=len(model.words) - 1)]
    keys, embeds = model.piece_key(words), model.piece_embed(words)
    if not model.config.word_context:
        return keys, embeds
    node, word = _tensor(batch.node_of).long(), _tensor(batch.word_of).long()
    counts = _tensor(batch.word_counts).clamp(min=1).unsqueeze(1)

    def means(vectors: Tensor) -> Tensor:
        sums = torch.zeros(len(words), vectors.shape[1]).index_add(0, node, vectors[word])
        return sums / counts

    return keys + means(model.word_key(terms)), embeds + means(model.word_embed(terms))


def _embeds(model: MuZeroModel, batch: Batch, position: int, embeds: Tensor) -> Tensor:
    """Embeddings [B, embed] of the actions taken at a position; arbitrary beyond the end, where no loss counts."""
    kind, ids = _tensor(batch.kinds[position]).unsqueeze(1), _tensor(batch.ids[position]).long()
    rules = model.dynamics.rules(ids.clamp(max=model.rules - 1))
    local = embeds[ids.clamp(max=len(embeds) - 1)]
    free = model.piece_embed(model.words[ids.clamp(max=len(model.words) - 1)])
    return torch.where(kind == LOCAL_PIECE, local, torch.where(kind == INDEX_PIECE, free, rules))


def _categorical(
    logits: Tensor, target: NDArray[np.float32], counts: NDArray[np.float32], support: Support, shares: Tensor,
    weight: Tensor,
) -> Tensor:  # fmt: skip
    """Cross-entropy [positions, B], weighted and summed over positions, mean over the batch."""

    cross = -(two_hot(_tensor(target), support) * log_softmax(logits, -1)).sum(-1)
    return (cross * _tensor(counts) * shares * weight).sum() / len(weight)


def _policy(
    model: MuZeroModel, batch: Batch, queries: Tensor, keys: Tensor, index: Trie, shares: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Cross-entropy with the search policies, and the mean entropy of the policy over all choices."""
    choices = batch.choices
    loss, entropy = torch.zeros(()), torch.zeros(())
    if len(choices.id):
        position, row = _tensor(choices.position).long(), _tensor(choices.row).long()
        kind, ids = _tensor(choices.kind), _tensor(choices.id).long()
        query = queries[position, row]  # [n, head]
        free = model.piece_key(model.words[ids.clamp(max=len(model.words) - 1)])
        rules = ids.clamp(max=model.rules - 1)
        key = torch.where((kind == LOCAL_PIECE).unsqueeze(1), keys[ids.clamp(max=len(keys) - 1)], free)
        key = torch.where((kind == RULE).unsqueeze(1), model.policy.out.weight[rules], key)
        logits = (query * key).sum(1) + torch.where(kind == RULE, model.policy.out.bias[rules], torch.zeros(()))
        if model.config.policy_prior:
            logits = logits + model.prior_scale * _tensor(choices.prior)
        group = position * queries.shape[1] + row
        logs = logits - _log_sums(logits, group, queries.shape[0] * queries.shape[1])[group]
        scale = shares[position, 0] * weight[row]
        loss = loss - (_tensor(choices.share) * logs * scale).sum()
        entropy = -(logs.exp() * logs).sum() / len(torch.unique(group))
    if len(batch.first_choices):
        position, row = _tensor(batch.first_choices).long().unbind(1)
        first = torch.from_numpy(index.piece[1 : 1 + int(index.num_children[0])].astype(np.int64))
        logs = log_softmax(queries[position, row] @ model.piece_key(model.words[first]).T, 1)
        choice, column, share = map(_tensor, batch.first_choice_targets)
        scale = shares[position, 0] * weight[row]
        loss = loss - (share * logs[choice.long(), column.long()] * scale[choice.long()]).sum()
    return loss / len(weight), entropy


def _log_sums(logits: Tensor, group: Tensor, groups: int) -> Tensor:
    """log Σ e^x over each group [groups]."""
    with torch.no_grad():
        most = torch.full((groups,), -torch.inf).scatter_reduce(0, group, logits, "amax")
        most = torch.where(torch.isinf(most), torch.zeros(()), most)
    sums = torch.zeros(groups).index_add(0, group, torch.exp(logits - most[group]))
    return torch.log(sums.clamp(min=1e-30)) + most


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def make_optimiser(model: MuZeroModel, training: TrainingConfig) -> torch.optim.Optimizer:
    """Weight decay for matrices only. `share`: the factor of the learning rate for a group."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": training.weight_decay, "share": 1.0},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0, "share": 1.0},
    ]
    if training.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=training.learning_rate, momentum=0.9)
    return torch.optim.AdamW(groups, lr=training.learning_rate)
