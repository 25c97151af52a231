"""From what h sees to where a search starts: the first latent state, and a key for every piece that can be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS
from orienteer.agents.muzero.config import Paying, Sizes
from orienteer.agents.muzero.deterministic_matmul import Floats, product
from orienteer.agents.muzero.grammar import LOCAL, OPERATORS, QueryGrammar
from orienteer.agents.muzero.learned_model import SLOT_TABLE, Scene, Vocabulary, vocabulary
from orienteer.agents.muzero.networks import Linear, Thinking, candidate, gate, thinking_from
from orienteer.agents.muzero.representation import Sight
from orienteer.agents.muzero.tries import LocalTries, Trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.session import Term

# What the score rises by where a unit is promised: as it was guessed, and as rewards have shown it (lab book).
PROMISED: Mapping[Paying, float] = {"rules": 0.25, "words": 0.1}
NOWHERE = np.float32(-30.0)  # the log of the weight of no word at all


class Mind:
    """g, f, and what leads into them, from their tensors; `words` [pieces, width] is the encoder's word table."""

    def __init__(
        self, tensors: Mapping[str, NDArray[Any]], sizes: Sizes, words: Floats, grammar: QueryGrammar, index: Trie
    ) -> None:
        self.sizes, self.grammar = sizes, grammar
        self.net: Thinking = thinking_from(tensors, sizes)
        self._start = _padded(tensors["start.weight"], tensors["start.bias"])
        self._gru = {
            name: _padded(tensors[f"past.weight_{name}_l0"], tensors[f"past.bias_{name}_l0"]) for name in ("ih", "hh")
        }
        self._piece_key, self._piece_embed = (_padded(tensors[f"{n}.weight"]) for n in ("piece_key", "piece_embed"))
        self._word_key, self._word_embed = (_padded(tensors[f"{n}.weight"]) for n in ("word_key", "word_embed"))
        told = _product(words, _padded(tensors["basis"]))
        self.vocabulary: Vocabulary = vocabulary(
            index, _product(told, self._piece_key), _product(told, self._piece_embed)
        )  # fmt: skip

    def scene(
        self, sight: Sight, terms: Sequence[Term], tries: LocalTries, past: Sequence[int], steps_left: int,
        may_stop: bool,
    ) -> Scene:  # fmt: skip
        """`past` are the actions of the session so far."""
        whole = np.concatenate([sight.whole, self._remember(past)])[None]
        latent = _product(whole, self._start)[0]
        candidate(latent)
        pieces = tries.trie.piece
        keys, embeds = self.vocabulary.keys[pieces], self.vocabulary.embeds[pieces]
        # The first level has sources in the place of pieces; nothing reads a key of these.
        if self.sizes.words:
            counts, parents = _counts(tries.trie.first, tries.trie.degree, tries.trie.word)
            keys = keys + _means(_product(sight.terms, self._word_key), tries.trie.word, parents, counts)
            embeds = embeds + _means(_product(sight.terms, self._word_embed), tries.trie.word, parents, counts)
        leaning = lean(sight.slots, terms, tries) if self.sizes.prior else np.zeros((2, len(pieces), 1), np.float32)
        state = self.grammar.start(steps_left)
        promised = foreseen(sight.slots, tries, self.sizes)
        return Scene(latent, state, tries, keys, embeds, leaning, promised, float(sight.stop), may_stop)

    def _remember(self, past: Sequence[int]) -> Floats:
        """The GRU's state after the last actions."""
        units = self.sizes.gru
        state: Floats = np.zeros((1, units), np.float32)
        for action in past[-self.sizes.past :]:
            given = _product(self._embed(action), self._gru["ih"])[0]
            own = _product(state, self._gru["hh"])[0]
            reset, update = given[: 2 * units].reshape(2, -1) + own[: 2 * units].reshape(2, -1)
            gate(reset, False)
            gate(update, False)
            new = given[2 * units :] + reset * own[2 * units :]
            candidate(new)
            state = ((1 - update) * new + update * state[0])[None]
        last: Floats = state[0]
        return last

    def _embed(self, action: int) -> Floats:
        rules = len(self.grammar)
        table, row = (self.net.rules, action) if action < rules else (self.vocabulary.embeds, action - rules)
        return np.ascontiguousarray(table[row : row + 1])


def _padded(matrix: NDArray[Any], bias: NDArray[Any] | None = None) -> Linear:
    outer = -(-len(matrix) // 4) * 4
    if outer != len(matrix):
        raise ValueError(f"a matrix of {len(matrix)} rows; expected a multiple of 4")
    own = np.zeros(outer, np.float32) if bias is None else np.ascontiguousarray(bias, np.float32)
    return Linear(np.ascontiguousarray(matrix, np.float32), own)


def _product(x: Floats, layer: Linear) -> Floats:
    out = np.empty((len(x), len(layer.bias)), np.float32)
    product(np.ascontiguousarray(x, np.float32), layer.matrix, layer.bias, out)
    return out


def foreseen(slots: Floats, tries: LocalTries, sizes: Sizes) -> Floats:
    """[nodes, slots]: the reward that the word ending at a node promises; [nodes, 0] where nothing is foreseen."""
    word = tries.trie.word
    if not sizes.look or not len(slots):
        return np.zeros((len(word), 0), np.float32)
    return promised_rewards(slots, sizes)[np.maximum(word, 0)]


def promised_rewards(slots: NDArray[Any], sizes: Sizes) -> Floats:
    """[terms, slots]: what the score is to rise by, from what h saw where the engine was asked."""
    rewards: Floats = slots.astype(np.float32) * np.float32(PROMISED[sizes.paying] / sizes.look)
    return rewards


class NodeWords(NamedTuple):
    """Which words lie below each node: pairs (node, word), and how many words a node has."""

    nodes: NDArray[np.int32]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]


def node_words(trie: Trie) -> NodeWords:
    """For the learner, whose sums are made over all pairs at once."""
    counts, parents = _counts(trie.first, trie.degree, trie.word)
    nodes, words = _pairs(trie.word, parents)
    return NodeWords(nodes, words, counts)


@kernel
def _counts(
    first: NDArray[np.int32], count: NDArray[np.uint16], word: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """How many words end at or below each node, and each node's parent."""
    parents = np.full(len(first), -1, np.int32)
    for node in range(len(first)):
        for child in range(first[node], first[node] + count[node]):
            parents[child] = node
    counts = np.zeros(len(first), np.int32)
    for node in range(len(first) - 1, -1, -1):
        counts[node] += word[node] >= 0
        if parents[node] >= 0:
            counts[parents[node]] += counts[node]
    return counts, parents


@kernel
def _means(values: Floats, word: NDArray[np.int32], parents: NDArray[np.int32], counts: NDArray[np.int32]) -> Floats:
    """The mean of the words' vectors [words, width] below each node [nodes, width]."""
    sums = np.zeros((len(word), values.shape[1]), np.float32)
    for node in range(len(word) - 1, -1, -1):
        if word[node] >= 0:
            for k in range(sums.shape[1]):
                sums[node, k] += values[word[node], k]
        if parents[node] >= 0:
            for k in range(sums.shape[1]):
                sums[parents[node], k] += sums[node, k]
    for node in range(len(word)):
        if counts[node] > 0:
            for k in range(sums.shape[1]):
                sums[node, k] /= np.float32(counts[node])
    return sums


@kernel
def _pairs(word: NDArray[np.int32], parents: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    size = 0
    for node in range(len(word)):
        at = node if word[node] >= 0 else -1
        while at >= 0:
            size += 1
            at = parents[at]
    nodes, words = np.empty(size, np.int32), np.empty(size, np.int32)
    found = 0
    for node in range(len(word)):
        at = node if word[node] >= 0 else -1
        while at >= 0:
            nodes[found], words[found] = at, word[node]
            found += 1
            at = parents[at]
    return nodes, words


def lean(slots: Floats, terms: Sequence[Term], tries: LocalTries) -> Floats:
    """[2, nodes, slots]: the log of the cloned agent's weight of all words below a node, and of the one ending there.

    A word that stands in several places is shared among them, so that what it weighs in all is what it weighs there.
    """
    own = slots - np.log(_places(terms)).astype(np.float32)
    _, parents = _counts(tries.trie.first, tries.trie.degree, tries.trie.word)
    return _lean(own, tries.trie.word, parents)


def _places(terms: Sequence[Term]) -> Floats:
    """[terms, slots]: in how many tries a word can be found for a slot."""
    anywhere = np.array([[source in term.sources for source in LOCAL] for term in terms], np.float32)
    anywhere = anywhere.reshape(len(terms), len(LOCAL))
    title = anywhere[:, LOCAL.index("title")]
    found = np.ones((len(terms), len(SLOTS)), np.float32)
    for operator in range(len(OPERATORS)):
        for field in range(2):
            slot = SLOT_TABLE[operator, field]
            if slot >= 0:
                plain, rest = OPERATORS[operator].op == "or", anywhere.sum(1) - title
                found[:, slot] = anywhere.sum(1) if plain else title if field == 1 else rest
    return np.maximum(found, np.float32(1))


@kernel
def _lean(own: Floats, word: NDArray[np.int32], parents: NDArray[np.int32]) -> Floats:
    out = np.full((2, len(word), own.shape[1]), NOWHERE, np.float32)
    for node in range(len(word) - 1, -1, -1):
        for slot in range(own.shape[1]):
            if word[node] >= 0:
                out[1, node, slot] = own[word[node], slot]
                out[0, node, slot] = np.logaddexp(out[0, node, slot], own[word[node], slot])
            if parents[node] >= 0:
                out[0, parents[node], slot] = np.logaddexp(out[0, parents[node], slot], out[0, node, slot])
    return out
