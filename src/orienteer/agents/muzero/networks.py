"""The networks g and f without torch: matrix products, the LSTM of g, the heads of f, and their inputs.

A library's matrix product sums in another order for another number of rows, so that an agent's actions would depend on
how many sessions are played in the same batch. Here one inner loop computes four sums for each of two rows, also where
one row is left and stands for both: results are equal to the bit for any batch size. A block of the matrix stays in the
first-level cache while the rows go through it, which makes large batches cheap. No threads are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from orienteer.agents.muzero.config import NetworkConfig
from orienteer.agents.muzero.grammar import QueryGrammar
from orienteer.agents.muzero.tries import Trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.models.checks import check_shapes, linear_shapes

Float32s = NDArray[np.float32]
F = TypeVar("F", bound=Callable[..., object])

_CACHED = 4096  # entries of the matrix in a block: half of a first-level cache


def deterministic_kernel(function: F) -> F:
    """Compiles a kernel that may reorder its sums to suit the processor, always in the same way; no NaN expected."""
    allowed = {"contract", "nnan", "nsz", "reassoc"}
    try:
        return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath=allowed)(function))
    except RuntimeError:  # no folder for the cache
        return cast(F, njit(nogil=True, error_model="numpy", fastmath=allowed)(function))


@deterministic_kernel
def matmul(x: Float32s, matrix: Float32s, bias: Float32s, out: Float32s) -> None:
    """out [n, outer] = x [n, inner] · matrix [outer, inner]ᵀ + bias [outer]; `outer` must be a multiple of 4."""
    rows, inner = x.shape
    outer = matrix.shape[0]
    block = max(4, _CACHED // inner // 4 * 4)
    # An array, not an expression: a compiler that knows that the two rows are equal would reorder the sums of the last.
    second = np.minimum(np.arange(1, rows + 1), rows - 1)
    for start in range(0, outer, block):
        end = min(outer, start + block)
        for row in range(0, rows, 2):
            two = second[row]
            for position in range(start, end, 4):
                a = b = c = d = np.float32(0)
                e = f = g = h = np.float32(0)
                for k in range(inner):
                    u, v = x[row, k], x[two, k]
                    m, n = matrix[position, k], matrix[position + 1, k]
                    a, e = a + u * m, e + v * m
                    b, f = b + u * n, f + v * n
                    m, n = matrix[position + 2, k], matrix[position + 3, k]
                    c, g = c + u * m, g + v * m
                    d, h = d + u * n, h + v * n
                out[two, position], out[two, position + 1] = e + bias[position], f + bias[position + 1]
                out[two, position + 2], out[two, position + 3] = g + bias[position + 2], h + bias[position + 3]
                out[row, position], out[row, position + 1] = a + bias[position], b + bias[position + 1]
                out[row, position + 2], out[row, position + 3] = c + bias[position + 2], d + bias[position + 3]


@deterministic_kernel
def exp_in_place(x: Float32s) -> None:
    """exp of each element, in place; arguments are clipped to ±80.

    A polynomial of degree six between two powers of two, correct to a few units in the last place: a loop over the
    library's function is eight times slower.
    """
    bits = np.empty(x.size, np.int32)
    for k in range(x.size):
        power = min(max(x[k], np.float32(-80)), np.float32(80)) * np.float32(1.4426950408889634)
        whole = np.floor(power + np.float32(0.5))
        rest = power - whole
        y = np.float32(1.5403530e-4) * rest + np.float32(1.3333558e-3)
        y = y * rest + np.float32(9.6181291e-3)
        y = y * rest + np.float32(5.5504109e-2)
        y = y * rest + np.float32(2.4022651e-1)
        y = y * rest + np.float32(6.9314718e-1)
        x[k] = y * rest + np.float32(1)
        bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
    scales = bits.view(np.float32)
    for k in range(x.size):
        x[k] *= scales[k]


@deterministic_kernel
def max_of(x: Float32s) -> np.float32:
    most: np.float32 = x[0]
    for k in range(x.size):
        most = max(most, x[k])
    return most


_EPSILON = 1e-5


class Linear(NamedTuple):
    """matrix [outer, inner], bias [outer]; rows are padded to a multiple of four."""

    matrix: Float32s
    bias: Float32s


class LayerNorm(NamedTuple):
    gain: Float32s
    bias: Float32s


class Head(NamedTuple):
    """A head of f: linear, ReLU, layer norm, linear."""

    hidden: Linear
    norm: LayerNorm
    out: Linear


class NetworkWeights(NamedTuple):
    """The weights of g and f.

    rules    [rules, embed] embeddings of the rules
    input    [4 · lstm, embed], state: [4 · lstm, lstm], each with its layer norm; gates in the order i, f, c, o
    policy   its `out` gives the logits of rules; its normalised hidden layer is the query that scores pieces
    """

    rules: Float32s
    input: Linear
    input_norm: LayerNorm
    state: Linear
    state_norm: LayerNorm
    cell_norm: LayerNorm
    policy: Head
    value: Head
    reward: Head
    value_support: Float32s
    reward_support: Float32s
    relu_gates: bool
    prior_scale: float
    reward_at_words: bool


def network_weights(tensors: Mapping[str, NDArray[Any]], config: NetworkConfig) -> NetworkWeights:
    """From the tensors of `networks_torch.MuZeroModel`, by name."""

    def get(name: str) -> Float32s:
        return np.ascontiguousarray(tensors[name], np.float32)

    def linear(name: str) -> Linear:
        matrix = get(f"{name}.weight")
        bias = get(f"{name}.bias") if f"{name}.bias" in tensors else np.zeros(len(matrix), np.float32)
        outer = ceil(len(matrix) / 4) * 4
        padded = np.zeros((outer, matrix.shape[1]), np.float32)
        padded[: len(matrix)] = matrix
        return Linear(padded, np.pad(bias, (0, outer - len(bias))))

    def norm(name: str) -> LayerNorm:
        return LayerNorm(get(f"{name}.weight"), get(f"{name}.bias"))

    def head(name: str) -> Head:
        return Head(linear(f"{name}.hidden"), norm(f"{name}.norm"), linear(f"{name}.out"))

    return NetworkWeights(
        get("dynamics.rules.weight"), linear("dynamics.input"), norm("dynamics.input_norm"), linear("dynamics.state"),
        norm("dynamics.state_norm"), norm("dynamics.cell_norm"), head("policy"), head("value"), head("reward"),
        _support(config.value.low, config.value.high, config.value.bins),
        _support(config.reward.low, config.reward.high, config.reward.bins),
        config.gates == "relu", float(tensors["prior_scale"].reshape(())) if config.policy_prior else 0.0,
        config.reward_at == "words",
    )  # fmt: skip


def network_shapes(
    tensors: Mapping[str, NDArray[Any]], config: NetworkConfig, width: int, rules: int
) -> dict[str, tuple[int, ...]]:
    """The shapes of g, f and their inputs; those of the observation's encoding follow from `start` and `word_key`."""
    lstm, head, embed, gru = config.lstm, config.head, config.embed, config.gru
    start, words, basis = (tensors[name] for name in ("start.weight", "word_key.weight", "basis"))
    summary, word, reduced = start.shape[-1], words.shape[-1], len(basis) if basis.ndim else 0
    shapes: dict[str, tuple[int, ...]] = {
        "dynamics.rules.weight": (rules, embed), "basis": (reduced, width),
        "dynamics.input.weight": (4 * lstm, embed), "dynamics.state.weight": (4 * lstm, lstm),
        "piece_key.weight": (head, reduced), "piece_embed.weight": (embed, reduced),
        "word_key.weight": (head, word), "word_embed.weight": (embed, word),
        "past.weight_ih_l0": (3 * gru, embed), "past.weight_hh_l0": (3 * gru, gru),
        "past.bias_ih_l0": (3 * gru,), "past.bias_hh_l0": (3 * gru,),
        "dynamics.cell_norm.weight": (lstm,), "dynamics.cell_norm.bias": (lstm,),
        **linear_shapes("start", 2 * lstm, summary),
    }  # fmt: skip
    for name in ("input", "state"):
        shapes |= {f"dynamics.{name}_norm.{part}": (4 * lstm,) for part in ("weight", "bias")}
        if f"dynamics.{name}.bias" in tensors:
            shapes[f"dynamics.{name}.bias"] = (4 * lstm,)
    for name, inner, outer in (
        ("policy", 2 * lstm, rules), ("value", 2 * lstm, config.value.bins), ("reward", lstm, config.reward.bins),
    ):  # fmt: skip
        shapes |= {**linear_shapes(f"{name}.hidden", head, inner), **linear_shapes(f"{name}.out", outer, head)}
        shapes |= {f"{name}.norm.{part}": (head,) for part in ("weight", "bias")}
    if config.policy_prior:
        shapes["prior_scale"] = tensors["prior_scale"].shape if tensors["prior_scale"].size == 1 else (1,)
    return shapes


def _support(low: float, high: float, bins: int) -> Float32s:
    return np.linspace(low, high, bins).astype(np.float32)


@deterministic_kernel
def layer_norm(x: Float32s, norm: LayerNorm) -> None:
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
def dynamics(embeds: Float32s, states: Float32s, net: NetworkWeights, out: Float32s) -> None:
    """g: writes the latent state [n, 2 · lstm] (hidden, cell) after actions [n, embed]."""
    rows = len(embeds)
    units = states.shape[1] // 2
    gates = np.empty((rows, 4 * units), np.float32)
    recurrent = np.empty((rows, 4 * units), np.float32)
    matmul(embeds, net.input.matrix, net.input.bias, gates)
    layer_norm(gates, net.input_norm)
    matmul(np.ascontiguousarray(states[:, :units]), net.state.matrix, net.state.bias, recurrent)
    layer_norm(recurrent, net.state_norm)
    for row in range(rows):
        for k in range(4 * units):
            gates[row, k] += recurrent[row, k]
        for k in range(units, 2 * units):
            gates[row, k] += np.float32(1)  # the bias of the forget gate
        for part in (0, 1, 3):
            gate_in_place(gates[row, part * units : (part + 1) * units], net.relu_gates)
        tanh_in_place(gates[row, 2 * units : 3 * units])
        for k in range(units):
            out[row, units + k] = (
                gates[row, units + k] * states[row, units + k] + gates[row, k] * gates[row, 2 * units + k]
            )
    cells = out[:, units:].copy()
    layer_norm(cells, net.cell_norm)
    for row in range(rows):
        out[row, units:] = cells[row]
        tanh_in_place(cells[row])
        for k in range(units):
            out[row, k] = gates[row, 3 * units + k] * cells[row, k]


@deterministic_kernel
def gate_in_place(x: Float32s, relu: bool) -> None:
    """Sigmoid or ReLU of each element, in place."""
    if relu:
        for k in range(x.size):
            x[k] = max(x[k], np.float32(0))
        return
    for k in range(x.size):
        x[k] = -x[k]
    exp_in_place(x)
    for k in range(x.size):
        x[k] = np.float32(1) / (np.float32(1) + x[k])


@deterministic_kernel
def tanh_in_place(x: Float32s) -> None:
    """tanh of each element, in place: 1 - 2 / (e^2x + 1)."""
    for k in range(x.size):
        x[k] = np.float32(2) * x[k]
    exp_in_place(x)
    for k in range(x.size):
        x[k] = np.float32(1) - np.float32(2) / (x[k] + np.float32(1))


@kernel
def head_hidden(x: Float32s, head: Head) -> Float32s:
    """The normalised hidden layer [n, head] of a head of f."""
    activations = np.empty((len(x), len(head.hidden.bias)), np.float32)
    matmul(x, head.hidden.matrix, head.hidden.bias, activations)
    for row in range(len(x)):
        for k in range(activations.shape[1]):
            activations[row, k] = max(activations[row, k], np.float32(0))
    layer_norm(activations, head.norm)
    return activations


@kernel
def expected_value(x: Float32s, head: Head, support: Float32s) -> NDArray[np.float64]:
    """The expectation [n] of a categorical head of f."""
    activations = head_hidden(x, head)
    logits = np.empty((len(x), len(head.out.bias)), np.float32)
    matmul(activations, head.out.matrix, head.out.bias, logits)
    means = np.empty(len(x))
    for row in range(len(x)):
        most = logits[row, : support.size].max()
        total = mean = 0.0
        for k in range(support.size):
            share = np.exp(np.float64(logits[row, k] - most))
            total += share
            mean += share * support[k]
        means[row] = mean / total
    return means


@kernel
def rule_logits(query: Float32s, head: Head) -> Float32s:
    """[n, rules + padding]"""
    logits = np.empty((len(query), len(head.out.bias)), np.float32)
    matmul(query, head.out.matrix, head.out.bias, logits)
    return logits


@deterministic_kernel
def key_logit(query: Float32s, keys: Float32s, row: int) -> float:
    """The dot product of a query [head] and row `row` of the keys [n, head]."""
    total = np.float32(0)
    for k in range(query.size):
        total += query[k] * keys[row, k]
    return float(total)


class Vocabulary(NamedTuple):
    """The trie of an index, and every wordpiece without context: keys [pieces, head], embeds [pieces, embed].

    `first_keys` are the keys of the pieces that begin a word of the index, in the order of the trie: a plan chooses
    among all of them once it has completed a word.
    """

    trie: Trie
    keys: Float32s
    embeds: Float32s
    first_keys: Linear


def vocabulary(trie: Trie, keys: Float32s, embeds: Float32s) -> Vocabulary:
    first = keys[trie.piece[1 : 1 + int(trie.num_children[0])]]
    padded = np.zeros((-(-len(first) // 4) * 4, keys.shape[1]), np.float32)
    padded[: len(first)] = first
    return Vocabulary(trie, keys, embeds, Linear(padded, np.zeros(len(padded), np.float32)))


class Networks:
    """g, f and their inputs; `word_embeddings` [pieces, width] is the encoder's word table."""

    def __init__(
        self,
        tensors: Mapping[str, NDArray[Any]],
        config: NetworkConfig,
        word_embeddings: Float32s,
        grammar: QueryGrammar,
        index: Trie,
    ) -> None:
        """Raises ValueError where the tensors fit neither the configuration nor each other."""
        check_shapes(tensors, network_shapes(tensors, config, word_embeddings.shape[1], len(grammar)))
        self.config, self.grammar = config, grammar
        self.weights: NetworkWeights = network_weights(tensors, config)
        self._start = _linear(tensors["start.weight"], tensors["start.bias"])
        self._gru = {
            name: _linear(tensors[f"past.weight_{name}_l0"], tensors[f"past.bias_{name}_l0"]) for name in ("ih", "hh")
        }
        self._piece_key, self._piece_embed = (_linear(tensors[f"{n}.weight"]) for n in ("piece_key", "piece_embed"))
        self._word_key, self._word_embed = (_linear(tensors[f"{n}.weight"]) for n in ("word_key", "word_embed"))
        pieces = _apply(word_embeddings, _linear(tensors["basis"]))
        self.vocabulary: Vocabulary = vocabulary(
            index, _apply(pieces, self._piece_key), _apply(pieces, self._piece_embed)
        )  # fmt: skip

    def initial_latent(self, summary: Float32s, history: Sequence[int]) -> Float32s:
        """The latent state [2 · lstm] at the root; `history`: the grammar actions of the session so far."""
        latent: Float32s = _apply(np.concatenate([summary, self._encode_history(history)])[None], self._start)[0]
        tanh_in_place(latent)
        return latent

    def word_keys(self, terms: Float32s) -> Float32s:
        """[terms, head] from the encodings of terms [terms, width]."""
        return _apply(terms, self._word_key)

    def word_embeds(self, terms: Float32s) -> Float32s:
        """[terms, embed] from the encodings of terms [terms, width]."""
        return _apply(terms, self._word_embed)

    def _encode_history(self, history: Sequence[int]) -> Float32s:
        """The state of the GRU [gru] after the last actions."""
        units = self.config.gru
        state: Float32s = np.zeros((1, units), np.float32)
        for action in history[-self.config.history :]:
            from_input = _apply(self._embed(action), self._gru["ih"])[0]
            from_state = _apply(state, self._gru["hh"])[0]
            reset, update = from_input[: 2 * units].reshape(2, -1) + from_state[: 2 * units].reshape(2, -1)
            gate_in_place(reset, False)
            gate_in_place(update, False)
            new = from_input[2 * units :] + reset * from_state[2 * units :]
            tanh_in_place(new)
            state = ((1 - update) * new + update * state[0])[None]
        last: Float32s = state[0]
        return last

    def _embed(self, action: int) -> Float32s:
        rules = len(self.grammar)
        table, row = (self.weights.rules, action) if action < rules else (self.vocabulary.embeds, action - rules)
        return np.ascontiguousarray(table[row : row + 1])


def _linear(matrix: NDArray[Any], bias: NDArray[Any] | None = None) -> Linear:
    outer = -(-len(matrix) // 4) * 4
    if outer != len(matrix):
        raise ValueError(f"a matrix of {len(matrix)} rows; expected a multiple of 4")
    padded_bias = np.zeros(outer, np.float32) if bias is None else np.ascontiguousarray(bias, np.float32)
    return Linear(np.ascontiguousarray(matrix, np.float32), padded_bias)


def _apply(x: Float32s, layer: Linear) -> Float32s:
    out = np.empty((len(x), len(layer.bias)), np.float32)
    matmul(np.ascontiguousarray(x, np.float32), layer.matrix, layer.bias, out)
    return out
