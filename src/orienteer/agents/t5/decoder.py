"""T5's decoder in NumPy: one text at a time, several hypotheses of its target together.

CTranslate2 decodes T5 too, but lets nobody choose what may come next, and that is what holds an agent to legal
refinements. The decoder is small beside the encoder; where it does not copy, its cost is mostly the product with the
word table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.config import Shape

NEVER = -30.0  # the log-probability of a token that can not be copied; finite, so that a constraint may force it

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Layer:
    """The maps of a layer, each [in, out]."""

    norms: tuple[Floats, Floats, Floats]
    own: Floats  # query, key and value of the target itself, side by side
    own_out: Floats
    query: Floats
    memory: Floats  # key and value of the encoder's states, side by side
    out: Floats
    feed: tuple[Floats, ...]  # two where gated
    feed_out: Floats


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decoder looks at of one text: keys [H, D, S] and values [H, S, D] of each layer, states to copy from."""

    keys: tuple[Floats, ...]
    values: tuple[Floats, ...]
    states: Floats  # [width, S]
    written: NDArray[np.int64]  # the tokens that can be written, each once, where the decoder copies
    columns: NDArray[np.int64]  # for each token of `Shape.writes`, then for each of the text, its place in `written`


class Hypotheses:
    """The keys and values of what was written so far, for some beams: [layers, 2, B, H, T, D]."""

    def __init__(self, shape: Shape, most: int) -> None:
        self._kept = np.zeros((shape.decoder_layers, 2, 1, shape.heads, most, shape.head_width), np.float32)
        self.size = 0

    def follow(self, beams: NDArray[np.int64]) -> None:
        """Goes on with these beams, in this order; one may be taken several times."""
        if len(beams) != self._kept.shape[2] or (beams != np.arange(len(beams))).any():
            self._kept = self._kept[:, :, beams]

    def add(self, layer: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """keys, values: [B, H, D] of the newest token; gives all of them, [B, H, T, D]."""
        self._kept[layer, 0, :, :, self.size] = keys
        self._kept[layer, 1, :, :, self.size] = values
        return self._kept[layer, 0, :, :, : self.size + 1], self._kept[layer, 1, :, :, : self.size + 1]


class Decoder:
    """Raises KeyError or ValueError where the tensors do not make this shape."""

    def __init__(self, shape: Shape, tensors: Mapping[str, NDArray[Any]], most: int) -> None:
        self.shape, self.most = shape, most
        self._act = _ACTIVATIONS[shape.activation]
        self._layers = [self._layer(tensors, number) for number in range(shape.decoder_layers)]
        self._norm = tensors["decoder.final_layer_norm.weight"]
        self._words: Floats = tensors[shape.words]
        # [width, vocabulary], so that a few states meet it row by row in memory.
        head = tensors.get("head.weight", self._words)
        self._writes = None if shape.writes is None else np.array(shape.writes, np.int64)
        head = head if self._writes is None else head[self._writes]
        self._head = np.ascontiguousarray(head.T) * np.float32(shape.output_scale)
        self._copy = None if self._writes is None else np.ascontiguousarray(tensors["copy.weight"].T)
        places = tensors["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]  # [buckets, H]
        numbers = [_bucket(distance, shape.buckets, shape.max_distance) for distance in range(most)]
        self._places = np.ascontiguousarray(places[numbers].T)  # [H, distance]

    def _layer(self, tensors: Mapping[str, NDArray[Any]], number: int) -> _Layer:
        there = f"decoder.block.{number}.layer"
        own, other, feed = f"{there}.0.SelfAttention", f"{there}.1.EncDecAttention", f"{there}.2.DenseReluDense"

        def maps(*names: str) -> Floats:
            return np.ascontiguousarray(np.concatenate([tensors[f"{name}.weight"] for name in names]).T)

        return _Layer(
            tuple(tensors[f"{there}.{part}.layer_norm.weight"] for part in range(3)),  # type: ignore[arg-type]
            maps(*(f"{own}.{name}" for name in "qkv")), maps(f"{own}.o"),
            maps(f"{other}.q"), maps(f"{other}.k", f"{other}.v"), maps(f"{other}.o"),
            tuple(maps(f"{feed}.{name}") for name in (("wi_0", "wi_1") if self.shape.gated else ("wi",))),
            maps(f"{feed}.wo"),
        )  # fmt: skip

    def remember(self, states: Floats, source: Sequence[int]) -> Memory:
        """states: [S, width], the encoder's, of the tokens of a source."""
        heads, width = self.shape.heads, self.shape.head_width
        keys, values = [], []
        for layer in self._layers:
            both = (states @ layer.memory).reshape(len(states), 2, heads, width)
            keys.append(np.ascontiguousarray(both[:, 0].transpose(1, 2, 0)))
            values.append(np.ascontiguousarray(both[:, 1].transpose(1, 0, 2)))
        known = np.array([*(self.shape.writes or ()), *source], np.int64)
        written, columns = np.unique(known, return_inverse=True)
        return Memory(tuple(keys), tuple(values), np.ascontiguousarray(states.T), written, columns)

    def step(self, memory: Memory, so_far: Hypotheses, tokens: NDArray[np.int64]) -> Floats:
        """The states [B, width] after one more token in each beam; `so_far` grows by it."""
        heads, width, count = self.shape.heads, self.shape.head_width, len(tokens)
        x: Floats = self._words[tokens] * np.float32(self.shape.input_scale)
        places = self._places[:, so_far.size :: -1]  # [H, T]: the newest token looks back
        for number, layer in enumerate(self._layers):
            own = self._normed(x, layer.norms[0]) @ layer.own
            query, key, value = own.reshape(count, 3, heads, width).swapaxes(0, 1)
            keys, values = so_far.add(number, key, value)
            weights = _softmax((keys @ query[..., None])[..., 0] + places)  # [B, H, T]
            x += (weights[:, :, None] @ values).reshape(count, -1) @ layer.own_out
            asked: Floats = self._normed(x, layer.norms[1]) @ layer.query
            asked = asked.reshape(count, heads, width).swapaxes(0, 1)
            found = _softmax(asked @ memory.keys[number]) @ memory.values[number]  # [H, B, D]
            x += found.swapaxes(0, 1).reshape(count, -1) @ layer.out
            normed = self._normed(x, layer.norms[2])
            inner = self._act(normed @ layer.feed[0])
            for linear in layer.feed[1:]:
                inner = inner * (normed @ linear)
            x += inner @ layer.feed_out
        so_far.size += 1
        return self._normed(x, self._norm)

    def log_probabilities(self, memory: Memory, states: Floats) -> Floats:
        """[B, vocabulary]; where the decoder copies, `NEVER` for tokens that can not be written."""
        if self._copy is None:
            logits: Floats = states @ self._head
            logits -= logits.max(1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(1, keepdims=True))
            return logits
        # A token's probability is the sum over the ways to it: as a word of its own, and from each of its places.
        ways = _softmax(np.concatenate([states @ self._head, (states @ self._copy) @ memory.states], 1))
        found = np.full((len(states), self.shape.vocabulary), NEVER, np.float32)
        for row, own in zip(found, ways, strict=True):
            sums = np.bincount(memory.columns, own, len(memory.written))
            row[memory.written] = np.log(sums + np.exp(NEVER))
        return found

    def _normed(self, x: Floats, weight: Floats) -> Floats:
        square = np.einsum("bi,bi->b", x, x)[:, None] / np.float32(x.shape[1])
        normed: Floats = x / np.sqrt(square + np.float32(self.shape.epsilon)) * weight
        return normed


def _softmax(x: Floats) -> Floats:
    exp = np.exp(x - x.max(-1, keepdims=True))
    shares: Floats = exp / exp.sum(-1, keepdims=True)
    return shares


def _bucket(distance: int, buckets: int, most: int) -> int:
    """T5's bucket of a distance back: the near ones apart, the far ones by their logarithm."""
    exact = buckets // 2
    if distance < exact:
        return distance
    return min(buckets - 1, exact + int(log(distance / exact) / log(most / exact) * (buckets - exact)))


def _relu(x: Floats) -> Floats:
    return np.maximum(x, 0)


def _gelu_new(x: Floats) -> Floats:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    out: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return out


def _silu(x: Floats) -> Floats:
    out: Floats = x / (1 + np.exp(-x))
    return out


_ACTIVATIONS = {"relu": _relu, "gelu_new": _gelu_new, "silu": _silu}
