"""The learner: the networks in PyTorch, MuZero's losses along unrollings, the optimiser. Needs torch.

`MuZeroModel` is g, f and their inputs, `TrainableEncoder` is h. Tensor names and shapes are those that `networks.py`
and `representation.py` read; tests compare their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from transformers import BertConfig, BertModel

from orienteer.agents.action_space import grammar_bits
from orienteer.agents.encoding import SOURCES, mark_ids
from orienteer.agents.lookahead.value_model import PREFIX
from orienteer.agents.muzero.batch import INDEX_PIECE, LOCAL_PIECE, RULE, Batch
from orienteer.agents.muzero.config import NetworkConfig, Support, TrainingConfig
from orienteer.agents.muzero.model_files import PretrainedEncoder
from orienteer.agents.muzero.replay import TokenRow, TrajectoryStep
from orienteer.agents.muzero.representation import idf_values, ps_values
from orienteer.agents.muzero.tries import Trie
from orienteer.agents.pointer.model import PointerModel
from orienteer.errors import ModelCorruptError, TrainingError
from orienteer.models.model_folder import dequantise
from orienteer.query import Grammar

WORD_BASIS = 64  # principal components of the word table that represent pieces


class Head(nn.Module):
    """A head of f: linear, ReLU, layer norm, linear."""

    def __init__(self, inner: int, hidden: int, outer: int | Support) -> None:
        super().__init__()
        numbers = torch.zeros(outer) if isinstance(outer, int) else _numbers(outer)
        self.hidden = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, len(numbers))
        # At first the policy is its prior, and values and rewards are about 0, as most are: otherwise the first
        # searches would follow random values.
        nn.init.normal_(self.out.weight, std=0.01)
        spread = 1.0 if isinstance(outer, int) else (outer.high - outer.low) / (outer.bins - 1)
        with torch.no_grad():
            self.out.bias.copy_(-0.5 * (numbers / spread) ** 2)

    def query(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(torch.relu(self.hidden(x)))
        return normed

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.query(x))
        return logits


class Dynamics(nn.Module):
    """g: a layer-normalised LSTM; its state is (hidden, cell)."""

    def __init__(self, config: NetworkConfig, rules: int) -> None:
        super().__init__()
        self.units, self.relu = config.lstm, config.gates == "relu"
        self.rules = nn.Embedding(rules, config.embed)
        self.input = nn.Linear(config.embed, 4 * config.lstm)
        self.input_norm = nn.LayerNorm(4 * config.lstm)
        self.state = nn.Linear(config.lstm, 4 * config.lstm)
        self.state_norm = nn.LayerNorm(4 * config.lstm)
        self.cell_norm = nn.LayerNorm(config.lstm)

    def forward(self, embeds: Tensor, state: Tensor) -> Tensor:
        """embeds [n, embed], state [n, 2 · lstm] → [n, 2 · lstm]"""
        before, cell = state.split(self.units, 1)
        i, f, c, o = (self.input_norm(self.input(embeds)) + self.state_norm(self.state(before))).split(self.units, 1)
        gate = torch.relu if self.relu else torch.sigmoid
        cell = self.cell_norm(gate(f + 1) * cell + gate(i) * torch.tanh(c))
        return torch.cat([gate(o) * torch.tanh(cell), cell], 1)


class MuZeroModel(nn.Module):
    """Everything but h.

    summary, width   lengths of the encoder's outputs (see `encoding_sizes`)
    words            [pieces, width of the encoder] its word table
    """

    words: Tensor

    def __init__(self, config: NetworkConfig, rules: int, summary: int, width: int, words: NDArray[np.float32]) -> None:
        super().__init__()
        self.config, self.rules = config, rules
        self.start = nn.Linear(summary + config.gru, 2 * config.lstm)
        self.past = nn.GRU(config.embed, config.gru, batch_first=True)
        basis = min(WORD_BASIS, words.shape[1])
        self.register_buffer("basis", torch.from_numpy(_basis(words, basis)))
        self.register_buffer("words", torch.from_numpy(words) @ self.basis.T, persistent=False)
        self.piece_key = nn.Linear(basis, config.head, bias=False)
        self.piece_embed = nn.Linear(basis, config.embed, bias=False)
        self.word_key = nn.Linear(width, config.head, bias=False)
        self.word_embed = nn.Linear(width, config.embed, bias=False)
        for layer in (self.piece_key, self.word_key):
            nn.init.normal_(layer.weight, std=0.01)
        self.dynamics = Dynamics(config, rules)
        self.policy = Head(2 * config.lstm, config.head, rules)
        self.value = Head(2 * config.lstm, config.head, config.value)
        self.reward = Head(config.lstm, config.head, config.reward)
        self.prior_scale = nn.Parameter(torch.ones(()))

    def initial_state(self, whole: Tensor, past: Tensor, lengths: Tensor) -> Tensor:
        """The root state [n, 2 · lstm] from summaries [n, size] and actions [n, history], padded with -1 at the end."""
        return torch.tanh(self.start(torch.cat([whole, self._encode_history(past, lengths)], 1)))

    def _encode_history(self, past: Tensor, lengths: Tensor) -> Tensor:
        """The GRU's state [n, gru] after each row's last action; 0 where there is none."""
        if past.shape[1] == 0:
            return torch.zeros(len(past), self.config.gru)
        states, _ = self.past(self.embed(past.clamp(min=0)))  # [n, past, gru]
        last = states[torch.arange(len(past)), (lengths - 1).clamp(min=0)]
        return torch.where((lengths > 0).unsqueeze(1), last, torch.zeros_like(last))

    def embed(self, actions: Tensor) -> Tensor:
        """Embeddings of actions without context."""
        rules = self.dynamics.rules(actions.clamp(max=self.rules - 1))
        pieces = self.piece_embed(self.words[(actions - self.rules).clamp(min=0)])
        return torch.where((actions < self.rules).unsqueeze(-1), rules, pieces)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights by the names of a model folder."""
        return {name: value.numpy(force=True).copy() for name, value in self.state_dict().items()}


def _basis(words: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The first principal components [size, width] of a word table, scaled to unit variance."""
    centred = words.astype(np.float64) - words.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(words))
    order = np.argsort(-values)[:size]
    scale = 1 / np.sqrt(np.maximum(values[order], 1e-12))
    components: NDArray[np.float32] = (vectors[:, order].T * scale[:, None]).astype(np.float32)
    return components


def two_hot(values: Tensor, support: Support) -> Tensor:
    """Each value as shares of the two nearest numbers of a support [..., bins]; values are clipped to it."""
    position = (
        (values.clamp(support.low, support.high) - support.low) / (support.high - support.low) * (support.bins - 1)
    )
    low = position.floor().clamp(max=support.bins - 2)
    high = (position - low).unsqueeze(-1)
    shares = torch.zeros(*values.shape, support.bins, dtype=values.dtype)
    shares.scatter_(-1, low.long().unsqueeze(-1), 1 - high)
    return shares.scatter_(-1, low.long().unsqueeze(-1) + 1, high)


def decoded(logits: Tensor, support: Support) -> Tensor:
    """The mean of categorical logits [n, bins]."""
    return (torch.softmax(logits, -1) * _numbers(support)).sum(-1)


def _numbers(support: Support) -> Tensor:
    return torch.linspace(support.low, support.high, support.bins)


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """The same value with its gradient scaled."""
    return x * factor + x.detach() * (1 - factor)


class TrainableEncoder(nn.Module):
    """The cloned agent's network, with one more vector for a token's idf and one for its passage's PS.

    Both start at 0: h starts as the clone's.
    """

    def __init__(self, base: PretrainedEncoder, grammar: Grammar) -> None:
        super().__init__()
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        tensors = {name: value for name, value in dequantise(base.tensors).items() if not name.startswith(PREFIX)}
        encoder = BertModel(BertConfig(**{**base.bert, **quiet}), add_pooling_layer=False)
        marks = mark_ids(base.plain_tokenizer())
        self.clone = PointerModel(encoder, marks, len(tensors["mix.bias"]))
        layers = [
            torch.from_numpy(tensors.pop(name)) if name in tensors else None for name in ("layers.idf", "layers.ps")
        ]
        table = tensors["encoder.embeddings.word_embeddings.weight"]
        state = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
        try:
            self.clone.load_state_dict({**state, "marks": torch.from_numpy(table[marks].copy())})
        except RuntimeError as error:
            raise ModelCorruptError(f"not the weights of an h: {error}") from None
        # Word embeddings stay fixed: the keys of pieces depend on them.
        encoder.embeddings.word_embeddings.requires_grad_(False)
        encoder.embeddings.position_embeddings.requires_grad_(False)
        width = encoder.config.hidden_size
        self.idf, self.ps = (nn.Parameter(torch.zeros(width) if each is None else each.clone()) for each in layers)
        self.register_buffer("idf_values", torch.from_numpy(idf_values()), persistent=False)
        self.register_buffer("ps_values", torch.from_numpy(ps_values()), persistent=False)
        self.register_buffer("bits", torch.from_numpy(grammar_bits(grammar)), persistent=False)

    def forward(self, steps: Sequence[TrajectoryStep]) -> tuple[Tensor, Tensor]:
        """Encodes steps: summaries [n, size], terms [all terms, width]."""
        rows = [step.token_row for step in steps if step.token_row is not None]
        if len(rows) != len(steps):
            raise TrainingError("steps without their tokens cannot train h; play them with --train-h from the start")
        states = self._states(rows)
        length, width = states.shape[1], states.shape[2]
        groups, pieces, owners, first = [], [], [], 0
        for number, row in enumerate(rows):
            occurrences = row.occurrences.astype(np.int64)
            groups.append((occurrences[:, 0] + first) * len(SOURCES) + occurrences[:, 1])
            pieces.append(occurrences[:, 2] + number * length)
            owners.append(np.full(len(row.term_features), number))
            first += len(row.term_features)
        group, piece = torch.from_numpy(np.concatenate(groups)), torch.from_numpy(np.concatenate(pieces))
        owner = torch.from_numpy(np.concatenate(owners))
        size = first * len(SOURCES)
        pooled = states.new_zeros(size, width).index_add(0, group, states.flatten(0, 1)[piece])
        counts = states.new_zeros(size).index_add(0, group, torch.ones(len(group)))
        pooled = (pooled / counts.clamp(min=1).unsqueeze(-1)).view(first, -1)
        clone = self.clone
        of_terms = torch.from_numpy(np.concatenate([row.term_features for row in rows]))
        around = torch.cat([states[:, 0], torch.from_numpy(np.stack([row.state_features for row in rows]))], 1)
        terms = torch.relu(clone.term(torch.cat([pooled, of_terms], 1)) + clone.moment(around)[owner])
        terms = torch.relu(clone.mix(terms))
        best = torch.zeros(len(rows), terms.shape[1]).scatter_reduce(
            0, owner.unsqueeze(1).expand(-1, terms.shape[1]), terms, "amax"
        )  # fmt: skip
        bits = self.bits.expand(len(rows), -1)
        outcome = clone.outcome(torch.relu(clone.whole(torch.cat([around, bits, best], 1))))
        return torch.cat([around, best, outcome], 1), terms

    def _states(self, rows: Sequence[TokenRow]) -> Tensor:
        size = max(len(row.ids) for row in rows)
        ids, types, idf, ps, mask = (torch.zeros(len(rows), size, dtype=torch.int64) for _ in range(5))
        for number, row in enumerate(rows):
            length = len(row.ids)
            for target, source in ((ids, row.ids), (types, row.types), (idf, row.idf), (ps, row.ps)):
                target[number, :length] = torch.from_numpy(source.astype(np.int64))
            mask[number, :length] = 1
        number = self.clone.mark_of[ids]
        words = self.clone.encoder.embeddings.word_embeddings(ids)
        words = torch.where((number >= 0).unsqueeze(-1), self.clone.marks[number.clamp(min=0)], words)
        words = words + self.idf_values[idf].unsqueeze(-1) * self.idf + self.ps_values[ps].unsqueeze(-1) * self.ps
        states: Tensor = self.clone.encoder(
            inputs_embeds=words, token_type_ids=types, attention_mask=mask
        ).last_hidden_state  # fmt: skip
        return states

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights by the names of a model folder."""
        layers = {"layers.idf": self.idf.numpy(force=True).copy(), "layers.ps": self.ps.numpy(force=True).copy()}
        return {**self.clone.tensors(), **layers}


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
