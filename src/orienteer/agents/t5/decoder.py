"""T5's decoder in NumPy: one source at a time, several hypotheses of its target together.

CTranslate2 decodes T5 too, but does not let a caller choose which tokens may come next, and that is what holds an
agent to legal refinements. The decoder is small beside the encoder; where it does not copy, its cost is mostly the
product with the word table.

Shapes: B hypotheses, H heads of width D, S source tokens, T target tokens so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.model_files import Seq2SeqConfig

NEVER = -30.0  # the log-probability of a token that cannot be copied; finite, so that a constraint may force it

Float32s = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Layer:
    """The maps of a layer, each [in, out]."""

    norms: tuple[Float32s, Float32s, Float32s]
    self_qkv: Float32s  # query, key and value of the target itself, side by side
    self_out: Float32s
    cross_q: Float32s
    cross_kv: Float32s  # key and value of the encoder's states, side by side
    cross_out: Float32s
    feed_in: tuple[Float32s, ...]  # two where gated
    feed_out: Float32s


@dataclass(frozen=True, slots=True)
class EncodedSource:
    """What the decoder attends to: keys [H, D, S] and values [H, S, D] of each layer, states to copy from."""

    keys: tuple[Float32s, ...]
    values: tuple[Float32s, ...]
    states: Float32s  # [width, S]
    writable: NDArray[np.int64]  # the tokens that a copying decoder can write, each once
    columns: NDArray[np.int64]  # for each token of `config.writes`, then of the source, its index in `writable`


class KVCache:
    """Self-attention keys and values of the tokens so far, [layers, 2, B, H, T, D]."""

    def __init__(self, config: Seq2SeqConfig, max_length: int) -> None:
        shape = (config.decoder_layers, 2, 1, config.heads, max_length, config.head_width)
        self._cache = np.zeros(shape, np.float32)
        self.length = 0

    def select(self, beams: NDArray[np.int64]) -> None:
        """Goes on with these beams, in this order; one may be taken several times."""
        if len(beams) != self._cache.shape[2] or (beams != np.arange(len(beams))).any():
            self._cache = self._cache[:, :, beams]

    def add(self, layer: int, keys: Float32s, values: Float32s) -> tuple[Float32s, Float32s]:
        """Adds keys and values [B, H, D] of the newest token; returns all of them, [B, H, T, D]."""
        self._cache[layer, 0, :, :, self.length] = keys
        self._cache[layer, 1, :, :, self.length] = values
        return self._cache[layer, 0, :, :, : self.length + 1], self._cache[layer, 1, :, :, : self.length + 1]


class Decoder:
    """Raises KeyError or ValueError where the tensors do not fit the configuration."""

    def __init__(self, config: Seq2SeqConfig, tensors: Mapping[str, NDArray[Any]], max_length: int) -> None:
        self.config, self.max_length = config, max_length
        self._act = _ACTIVATIONS[config.activation]
        self._layers = [self._layer(tensors, number) for number in range(config.decoder_layers)]
        self._norm = tensors["decoder.final_layer_norm.weight"]
        self._words: Float32s = tensors[config.word_table]
        # [width, vocabulary], so that a few states meet it row by row in memory.
        head = tensors.get("head.weight", self._words)
        head = head if config.writes is None else head[np.array(config.writes, np.int64)]
        self._head = np.ascontiguousarray(head.T) * np.float32(config.output_scale)
        self._copy = None if config.writes is None else np.ascontiguousarray(tensors["copy.weight"].T)
        bias = tensors["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]  # [buckets, H]
        buckets = [_bucket(distance, config.buckets, config.max_distance) for distance in range(max_length)]
        self._position_bias = np.ascontiguousarray(bias[buckets].T)  # [H, distance]

    def _layer(self, tensors: Mapping[str, NDArray[Any]], number: int) -> _Layer:
        block = f"decoder.block.{number}.layer"
        itself, cross, feed = f"{block}.0.SelfAttention", f"{block}.1.EncDecAttention", f"{block}.2.DenseReluDense"

        def linear(*names: str) -> Float32s:
            return np.ascontiguousarray(np.concatenate([tensors[f"{name}.weight"] for name in names]).T)

        return _Layer(
            tuple(tensors[f"{block}.{part}.layer_norm.weight"] for part in range(3)),  # type: ignore[arg-type]
            linear(*(f"{itself}.{name}" for name in "qkv")), linear(f"{itself}.o"),
            linear(f"{cross}.q"), linear(f"{cross}.k", f"{cross}.v"), linear(f"{cross}.o"),
            tuple(linear(f"{feed}.{name}") for name in (("wi_0", "wi_1") if self.config.gated else ("wi",))),
            linear(f"{feed}.wo"),
        )  # fmt: skip

    def prepare(self, states: Float32s, source: Sequence[int]) -> EncodedSource:
        """states: [S, width], the encoder's, of the tokens of a source."""
        heads, width = self.config.heads, self.config.head_width
        keys, values = [], []
        for layer in self._layers:
            both = (states @ layer.cross_kv).reshape(len(states), 2, heads, width)
            keys.append(np.ascontiguousarray(both[:, 0].transpose(1, 2, 0)))
            values.append(np.ascontiguousarray(both[:, 1].transpose(1, 0, 2)))
        tokens = np.array([*(self.config.writes or ()), *source], np.int64)
        writable, columns = np.unique(tokens, return_inverse=True)
        return EncodedSource(tuple(keys), tuple(values), np.ascontiguousarray(states.T), writable, columns)

    def step(self, source: EncodedSource, cache: KVCache, tokens: NDArray[np.int64]) -> Float32s:
        """The states [B, width] after one more token in each beam; `cache` grows by it."""
        heads, width, count = self.config.heads, self.config.head_width, len(tokens)
        x: Float32s = self._words[tokens] * np.float32(self.config.input_scale)
        bias = self._position_bias[:, cache.length :: -1]  # [H, T]: from the oldest token to the newest
        for number, layer in enumerate(self._layers):
            qkv = self._normed(x, layer.norms[0]) @ layer.self_qkv
            query, key, value = qkv.reshape(count, 3, heads, width).swapaxes(0, 1)
            keys, values = cache.add(number, key, value)
            weights = _softmax((keys @ query[..., None])[..., 0] + bias)  # [B, H, T]
            x += (weights[:, :, None] @ values).reshape(count, -1) @ layer.self_out
            queries: Float32s = self._normed(x, layer.norms[1]) @ layer.cross_q
            queries = queries.reshape(count, heads, width).swapaxes(0, 1)
            read = _softmax(queries @ source.keys[number]) @ source.values[number]  # [H, B, D]
            x += read.swapaxes(0, 1).reshape(count, -1) @ layer.cross_out
            normed = self._normed(x, layer.norms[2])
            inner = self._act(normed @ layer.feed_in[0])
            for linear in layer.feed_in[1:]:
                inner = inner * (normed @ linear)
            x += inner @ layer.feed_out
        cache.length += 1
        return self._normed(x, self._norm)

    def log_probabilities(self, source: EncodedSource, states: Float32s) -> Float32s:
        """[B, vocabulary]; where the decoder copies, `NEVER` for tokens that cannot be written."""
        if self._copy is None:
            logits: Float32s = states @ self._head
            logits -= logits.max(1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(1, keepdims=True))
            return logits
        # A token's probability is a sum: as a word of `writes`, and from each of its positions in the source.
        shares = _softmax(np.concatenate([states @ self._head, (states @ self._copy) @ source.states], 1))
        logs = np.full((len(states), self.config.vocabulary), NEVER, np.float32)
        for row, share in zip(logs, shares, strict=True):
            sums = np.bincount(source.columns, share, len(source.writable))
            row[source.writable] = np.log(sums + np.exp(NEVER))
        return logs

    def _normed(self, x: Float32s, weight: Float32s) -> Float32s:
        square = np.einsum("bi,bi->b", x, x)[:, None] / np.float32(x.shape[1])
        normed: Float32s = x / np.sqrt(square + np.float32(self.config.epsilon)) * weight
        return normed


def _softmax(x: Float32s) -> Float32s:
    exp = np.exp(x - x.max(-1, keepdims=True))
    shares: Float32s = exp / exp.sum(-1, keepdims=True)
    return shares


def _bucket(distance: int, buckets: int, max_distance: int) -> int:
    """T5's bucket of a distance back: one each for the near ones, the far ones by their logarithm."""
    exact = buckets // 2
    if distance < exact:
        return distance
    return min(buckets - 1, exact + int(log(distance / exact) / log(max_distance / exact) * (buckets - exact)))


def _relu(x: Float32s) -> Float32s:
    return np.maximum(x, 0)


def _gelu_new(x: Float32s) -> Float32s:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    out: Float32s = np.float32(0.5) * x * (1 + np.tanh(inner))
    return out


def _silu(x: Float32s) -> Float32s:
    out: Float32s = x / (1 + np.exp(-x))
    return out


_ACTIVATIONS = {"relu": _relu, "gelu_new": _gelu_new, "silu": _silu}
