"""The networks that training shapes (needs torch): what leads from h into g, g itself, and f.

Names and shapes are those that `thinking.py` and `scenes.py` read; a test holds the two to each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orienteer.agents.muzero.config import Sizes, Support

WORD_BASIS = 64  # directions of the word table that pieces are told apart by


class Head(nn.Module):
    """One part of f: a hidden layer, ReLU, layer norm, and what is read off it."""

    def __init__(self, inner: int, hidden: int, outer: int | Support) -> None:
        super().__init__()
        numbers = torch.zeros(outer) if isinstance(outer, int) else _numbers(outer)
        self.hidden = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, len(numbers))
        # At first a policy that starts from a clone's is the clone's, and values and rewards are about 0, as most are:
        # what is hoped for before anything was learned would be what the first searches go by.
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
    """g: a layer-normalised LSTM; its state is h beside c."""

    def __init__(self, sizes: Sizes, rules: int) -> None:
        super().__init__()
        self.units, self.relu = sizes.lstm, sizes.gates == "relu"
        self.rules = nn.Embedding(rules, sizes.embed)
        self.input = nn.Linear(sizes.embed, 4 * sizes.lstm)
        self.input_norm = nn.LayerNorm(4 * sizes.lstm)
        self.state = nn.Linear(sizes.lstm, 4 * sizes.lstm)
        self.state_norm = nn.LayerNorm(4 * sizes.lstm)
        self.cell_norm = nn.LayerNorm(sizes.lstm)

    def forward(self, embeds: Tensor, state: Tensor) -> Tensor:
        """embeds [n, embed], state [n, 2 · lstm] → [n, 2 · lstm]"""
        before, cell = state.split(self.units, 1)
        i, f, c, o = (self.input_norm(self.input(embeds)) + self.state_norm(self.state(before))).split(self.units, 1)
        gate = torch.relu if self.relu else torch.sigmoid
        cell = self.cell_norm(gate(f + 1) * cell + gate(i) * torch.tanh(c))
        return torch.cat([gate(o) * torch.tanh(cell), cell], 1)


class MuZeroModel(nn.Module):
    """Everything but h.

    whole, width   lengths of what h sees: of a moment, and of a word
    words          [pieces, width of the encoder]: its word table
    """

    words: Tensor

    def __init__(self, sizes: Sizes, rules: int, whole: int, width: int, words: NDArray[np.float32]) -> None:
        super().__init__()
        self.sizes, self.rules = sizes, rules
        self.start = nn.Linear(whole + sizes.gru, 2 * sizes.lstm)
        self.past = nn.GRU(sizes.embed, sizes.gru, batch_first=True)
        basis = min(WORD_BASIS, words.shape[1])
        self.register_buffer("basis", torch.from_numpy(_basis(words, basis)))
        self.register_buffer("words", torch.from_numpy(words) @ self.basis.T, persistent=False)
        self.piece_key = nn.Linear(basis, sizes.head, bias=False)
        self.piece_embed = nn.Linear(basis, sizes.embed, bias=False)
        self.word_key = nn.Linear(width, sizes.head, bias=False)
        self.word_embed = nn.Linear(width, sizes.embed, bias=False)
        for layer in (self.piece_key, self.word_key):
            nn.init.normal_(layer.weight, std=0.01)
        self.dynamics = Dynamics(sizes, rules)
        self.policy = Head(2 * sizes.lstm, sizes.head, rules)
        self.value = Head(2 * sizes.lstm, sizes.head, sizes.value)
        self.reward = Head(sizes.lstm, sizes.head, sizes.reward)
        self.prior_scale = nn.Parameter(torch.ones(()))

    def begin(self, whole: Tensor, past: Tensor, lengths: Tensor) -> Tensor:
        """The first state [n, 2 · lstm] from what h sees and the past actions [n, past]; padding is -1, at the end."""
        return torch.tanh(self.start(torch.cat([whole, self._remember(past, lengths)], 1)))

    def _remember(self, past: Tensor, lengths: Tensor) -> Tensor:
        """The GRU's state after each row's own last action; 0 where there is none."""
        if past.shape[1] == 0:
            return torch.zeros(len(past), self.sizes.gru)
        states, _ = self.past(self.embed(past.clamp(min=0)))  # [n, past, gru]
        last = states[torch.arange(len(past)), (lengths - 1).clamp(min=0)]
        return torch.where((lengths > 0).unsqueeze(1), last, torch.zeros_like(last))

    def embed(self, actions: Tensor) -> Tensor:
        """Actions without context, as g takes them in."""
        rules = self.dynamics.rules(actions.clamp(max=self.rules - 1))
        pieces = self.piece_embed(self.words[(actions - self.rules).clamp(min=0)])
        return torch.where((actions < self.rules).unsqueeze(-1), rules, pieces)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights as a folder holds them."""
        return {name: value.numpy(force=True).copy() for name, value in self.state_dict().items()}


def _basis(words: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The directions [size, width] in which a word table differs most, scaled so that words differ by about 1."""
    centred = words.astype(np.float64) - words.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(words))
    order = np.argsort(-values)[:size]
    scale = 1 / np.sqrt(np.maximum(values[order], 1e-12))
    found: NDArray[np.float32] = (vectors[:, order].T * scale[:, None]).astype(np.float32)
    return found


def two_hot(values: Tensor, support: Support) -> Tensor:
    """Each value as shares of the two nearest numbers of a support [n, bins]; what lies outside is cut off."""
    place = (values.clamp(support.low, support.high) - support.low) / (support.high - support.low) * (support.bins - 1)
    low = place.floor().clamp(max=support.bins - 2)
    high = (place - low).unsqueeze(-1)
    shares = torch.zeros(*values.shape, support.bins, dtype=values.dtype)
    shares.scatter_(-1, low.long().unsqueeze(-1), 1 - high)
    return shares.scatter_(-1, low.long().unsqueeze(-1) + 1, high)


def decoded(logits: Tensor, support: Support) -> Tensor:
    """The mean of categorical logits [n, bins]."""
    return (torch.softmax(logits, -1) * _numbers(support)).sum(-1)


def _numbers(support: Support) -> Tensor:
    return torch.linspace(support.low, support.high, support.bins)


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """The same value, with so much of its gradient."""
    return x * factor + x.detach() * (1 - factor)
