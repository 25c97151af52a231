"""The networks g and f at work, without torch: latent states one action further, and what is made of them.

Everything of a batch is computed row by row with the same sums, so that no number depends on the company.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Sizes
from orienteer.agents.muzero.deterministic_matmul import Floats, powers, product, summing
from orienteer.engine.embedded.kernels.compile import kernel

_EPSILON = 1e-5


class Linear(NamedTuple):
    """matrix [outer, inner], bias [outer]; rows are added up to a multiple of four."""

    matrix: Floats
    bias: Floats


class Norm(NamedTuple):
    gain: Floats
    bias: Floats


class Head(NamedTuple):
    """Linear, ReLU, layer norm, linear, as one part of f."""

    hidden: Linear
    norm: Norm
    out: Linear


class Thinking(NamedTuple):
    """The weights of g and f.

    rules    [rules, embed] how g takes a rule in
    input    [4 · lstm, embed], state: [4 · lstm, lstm], each with its norm; gates in the order i, f, c, o
    policy   its `out` scores rules; the query for pieces is the normed hidden layer itself
    """

    rules: Floats
    input: Linear
    input_norm: Norm
    state: Linear
    state_norm: Norm
    cell_norm: Norm
    policy: Head
    value: Head
    reward: Head
    value_support: Floats
    reward_support: Floats
    relu_gates: bool
    prior_scale: float
    words_pay: bool


def thinking_from(tensors: Mapping[str, NDArray[Any]], sizes: Sizes) -> Thinking:
    """From tensors by the names of the torch model's."""

    def get(name: str) -> Floats:
        return np.ascontiguousarray(tensors[name], np.float32)

    def linear(name: str) -> Linear:
        matrix = get(f"{name}.weight")
        bias = get(f"{name}.bias") if f"{name}.bias" in tensors else np.zeros(len(matrix), np.float32)
        outer = ceil(len(matrix) / 4) * 4
        padded = np.zeros((outer, matrix.shape[1]), np.float32)
        padded[: len(matrix)] = matrix
        return Linear(padded, np.pad(bias, (0, outer - len(bias))))

    def norm(name: str) -> Norm:
        return Norm(get(f"{name}.weight"), get(f"{name}.bias"))

    def head(name: str) -> Head:
        return Head(linear(f"{name}.hidden"), norm(f"{name}.norm"), linear(f"{name}.out"))

    return Thinking(
        get("dynamics.rules.weight"), linear("dynamics.input"), norm("dynamics.input_norm"), linear("dynamics.state"),
        norm("dynamics.state_norm"), norm("dynamics.cell_norm"), head("policy"), head("value"), head("reward"),
        _support(sizes.value.low, sizes.value.high, sizes.value.bins),
        _support(sizes.reward.low, sizes.reward.high, sizes.reward.bins),
        sizes.gates == "relu", float(tensors["prior_scale"].reshape(())) if sizes.prior else 0.0,
        sizes.paying == "words",
    )  # fmt: skip


def _support(low: float, high: float, bins: int) -> Floats:
    return np.linspace(low, high, bins).astype(np.float32)


@summing
def normalise(x: Floats, norm: Norm) -> None:
    """Layer norm of every row [n, width], in place."""
    rows, width = x.shape
    for row in range(rows):
        mean = 0.0
        for k in range(width):
            mean += x[row, k]
        mean /= width
        spread = 0.0
        for k in range(width):
            spread += (x[row, k] - mean) ** 2
        scale = 1 / np.sqrt(spread / width + _EPSILON)
        for k in range(width):
            x[row, k] = np.float32((x[row, k] - mean) * scale) * norm.gain[k] + norm.bias[k]


@kernel
def forward(embeds: Floats, states: Floats, net: Thinking, out: Floats) -> None:
    """g: the state [n, 2 · lstm], h beside c, after an action [n, embed]."""
    rows = len(embeds)
    units = states.shape[1] // 2
    gates = np.empty((rows, 4 * units), np.float32)
    own = np.empty((rows, 4 * units), np.float32)
    product(embeds, net.input.matrix, net.input.bias, gates)
    normalise(gates, net.input_norm)
    product(np.ascontiguousarray(states[:, :units]), net.state.matrix, net.state.bias, own)
    normalise(own, net.state_norm)
    for row in range(rows):
        for k in range(4 * units):
            gates[row, k] += own[row, k]
        for k in range(units, 2 * units):
            gates[row, k] += np.float32(1)  # to remember at first
        for part in (0, 1, 3):
            gate(gates[row, part * units : (part + 1) * units], net.relu_gates)
        candidate(gates[row, 2 * units : 3 * units])
        for k in range(units):
            out[row, units + k] = (
                gates[row, units + k] * states[row, units + k] + gates[row, k] * gates[row, 2 * units + k]
            )
    cells = out[:, units:].copy()
    normalise(cells, net.cell_norm)
    for row in range(rows):
        out[row, units:] = cells[row]
        candidate(cells[row])
        for k in range(units):
            out[row, k] = gates[row, 3 * units + k] * cells[row, k]


@summing
def gate(x: Floats, relu: bool) -> None:
    """The sigmoid of each, or what of it is above 0, in place."""
    if relu:
        for k in range(x.size):
            x[k] = max(x[k], np.float32(0))
        return
    for k in range(x.size):
        x[k] = -x[k]
    powers(x)
    for k in range(x.size):
        x[k] = np.float32(1) / (np.float32(1) + x[k])


@summing
def candidate(x: Floats) -> None:
    """The hyperbolic tangent of each, in place: 1 - 2 / (e^2x + 1)."""
    for k in range(x.size):
        x[k] = np.float32(2) * x[k]
    powers(x)
    for k in range(x.size):
        x[k] = np.float32(1) - np.float32(2) / (x[k] + np.float32(1))


@kernel
def hidden(x: Floats, head: Head) -> Floats:
    """The normed hidden layer of a part of f [n, head]."""
    found = np.empty((len(x), len(head.hidden.bias)), np.float32)
    product(x, head.hidden.matrix, head.hidden.bias, found)
    for row in range(len(x)):
        for k in range(found.shape[1]):
            found[row, k] = max(found[row, k], np.float32(0))
    normalise(found, head.norm)
    return found


@kernel
def expected(x: Floats, head: Head, support: Floats) -> NDArray[np.float64]:
    """The mean of a categorical part of f [n]."""
    below = hidden(x, head)
    logits = np.empty((len(x), len(head.out.bias)), np.float32)
    product(below, head.out.matrix, head.out.bias, logits)
    found = np.empty(len(x))
    for row in range(len(x)):
        most = logits[row, : support.size].max()
        total = mean = 0.0
        for k in range(support.size):
            share = np.exp(np.float64(logits[row, k] - most))
            total += share
            mean += share * support[k]
        found[row] = mean / total
    return found


@kernel
def rule_scores(query: Floats, head: Head) -> Floats:
    """[n, rules, and up to three more]"""
    logits = np.empty((len(query), len(head.out.bias)), np.float32)
    product(query, head.out.matrix, head.out.bias, logits)
    return logits


@summing
def key_score(query: Floats, keys: Floats, row: int) -> float:
    """The product of a query [head] and one of the keys [n, head]."""
    total = np.float32(0)
    for k in range(query.size):
        total += query[k] * keys[row, k]
    return float(total)
