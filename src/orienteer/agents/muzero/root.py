"""From what h sees to where a search starts: the first latent state, and a key for every piece that can be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOT_OF, SLOTS
from orienteer.agents.muzero.config import NetworkConfig, RewardAt
from orienteer.agents.muzero.grammar import OPERATORS, Int32s
from orienteer.agents.muzero.networks import Float32s, Networks
from orienteer.agents.muzero.representation import EncodedObservation
from orienteer.agents.muzero.tries import LOCAL, LocalTries, Trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.query import FIELDS
from orienteer.session import Term

# What the score rises by where a unit is promised: as it was guessed, and as rewards have shown it (lab book).
REWARD_SHARE: Mapping[RewardAt, float] = {"rules": 0.25, "words": 0.1}
NOWHERE = np.float32(-30.0)  # the log of the weight of no word at all


SLOT_TABLE = np.full((len(OPERATORS), len(FIELDS)), -1, np.int32)
for (_operator, _field), _number in SLOT_OF.items():
    SLOT_TABLE[OPERATORS.index(_operator), FIELDS.index(_field)] = _number
assert len(SLOTS) == SLOT_TABLE.max() + 1


class RootState(NamedTuple):
    """Where one session's search starts, and the words that it may use.

    latent   [2 · lstm]
    state    of the grammar [6]
    keys     [nodes of the tries, head], embeds: [nodes, embed] of the piece that leads to each
    leaning  [2, nodes, slots]: what the cloned agent thinks of all words below a node, and of the one that ends there
    promised [nodes, slots]: the reward of a refinement with the word that ends there; [nodes, 0]: g foresees it
    stop     what it thinks of stopping
    """

    latent: Float32s
    grammar_state: Int32s
    tries: LocalTries
    keys: Float32s
    embeds: Float32s
    prior_logits: Float32s
    lookahead_rewards: Float32s
    stop_score: float
    may_stop: bool


def root_state(
    networks: Networks, encoded: EncodedObservation, terms: Sequence[Term], tries: LocalTries, past: Sequence[int],
    steps_left: int,
    may_stop: bool,
) -> RootState:  # fmt: skip
    """`past` are the actions of the session so far."""
    config, pieces = networks.config, tries.trie.piece
    keys, embeds = networks.vocabulary.keys[pieces], networks.vocabulary.embeds[pieces]
    # The first level has sources in the place of pieces; nothing reads a key of these.
    if config.word_context:
        counts, parents = _counts(tries.trie.first_child, tries.trie.num_children, tries.trie.word)
        keys = keys + _means(networks.word_keys(encoded.terms), tries.trie.word, parents, counts)
        embeds = embeds + _means(networks.word_embeds(encoded.terms), tries.trie.word, parents, counts)
    leaning = (
        node_prior_logits(encoded.slot_scores, terms, tries)
        if config.policy_prior
        else np.zeros((2, len(pieces), 1), np.float32)
    )
    return RootState(
        networks.initial_latent(encoded.summary, past), networks.grammar.start(steps_left), tries, keys, embeds,
        leaning,
        node_rewards(encoded.slot_scores, tries, config), float(encoded.stop_score), may_stop,
    )  # fmt: skip


def node_rewards(slots: Float32s, tries: LocalTries, config: NetworkConfig) -> Float32s:
    """[nodes, slots]: the reward that the word ending at a node promises; [nodes, 0] where nothing is foreseen."""
    word = tries.trie.word
    if not config.lookahead_scale or not len(slots):
        return np.zeros((len(word), 0), np.float32)
    return lookahead_rewards(slots, config)[np.maximum(word, 0)]


def lookahead_rewards(slots: NDArray[Any], config: NetworkConfig) -> Float32s:
    """[terms, slots]: what the score is to rise by, from what h saw where the engine was asked."""
    rewards: Float32s = slots.astype(np.float32) * np.float32(REWARD_SHARE[config.reward_at] / config.lookahead_scale)
    return rewards


class NodeWords(NamedTuple):
    """Which words lie below each node: pairs (node, word), and how many words a node has."""

    nodes: NDArray[np.int32]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]


def node_words(trie: Trie) -> NodeWords:
    """For the learner, whose sums are made over all pairs at once."""
    counts, parents = _counts(trie.first_child, trie.num_children, trie.word)
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
def _means(
    values: Float32s, word: NDArray[np.int32], parents: NDArray[np.int32], counts: NDArray[np.int32]
) -> Float32s:
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


def node_prior_logits(slots: Float32s, terms: Sequence[Term], tries: LocalTries) -> Float32s:
    """[2, nodes, slots]: the log of the cloned agent's weight of all words below a node, and of the one ending there.

    A word that stands in several places is shared among them, so that what it weighs in all is what it weighs there.
    """
    own = slots - np.log(_places(terms)).astype(np.float32)
    _, parents = _counts(tries.trie.first_child, tries.trie.num_children, tries.trie.word)
    return _lean(own, tries.trie.word, parents)


def _places(terms: Sequence[Term]) -> Float32s:
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
def _lean(own: Float32s, word: NDArray[np.int32], parents: NDArray[np.int32]) -> Float32s:
    out = np.full((2, len(word), own.shape[1]), NOWHERE, np.float32)
    for node in range(len(word) - 1, -1, -1):
        for slot in range(own.shape[1]):
            if word[node] >= 0:
                out[1, node, slot] = own[word[node], slot]
                out[0, node, slot] = np.logaddexp(out[0, node, slot], own[word[node], slot])
            if parents[node] >= 0:
                out[0, parents[node], slot] = np.logaddexp(out[0, parents[node], slot], out[0, node, slot])
    return out
