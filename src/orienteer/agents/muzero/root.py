"""The root state of a search, from an encoded observation: latent state, keys of trie nodes, priors, rewards."""

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

# Expected reward per unit of the lookahead's prediction: a guess, and as measured on rewards (lab book).
REWARD_SHARE: Mapping[RewardAt, float] = {"rules": 0.25, "words": 0.1}
NOWHERE = np.float32(-30.0)  # the log weight of no word
# [operators, fields]: the slot of `agents/action_space`; -1 where there is none.
SLOT_TABLE = np.full((len(OPERATORS), len(FIELDS)), -1, np.int32)
for (_operator, _field), _number in SLOT_OF.items():
    SLOT_TABLE[OPERATORS.index(_operator), FIELDS.index(_field)] = _number
assert len(SLOTS) == SLOT_TABLE.max() + 1


class RootState(NamedTuple):
    """The root of one session's search, and the terms that it may use.

    latent             [2 · lstm]
    grammar_state      [STATE_SIZE]
    keys, embeds       [nodes, head], [nodes, embed] of the piece that leads to each node of the tries
    prior_logits       [2, nodes, slots] prior of all words below a node, and of the word that ends there
    lookahead_rewards  [nodes, slots] predicted reward of a refinement with the word that ends there; [nodes, 0]
                       without a lookahead
    stop_score         prior of stopping
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
    networks: Networks, encoded: EncodedObservation, terms: Sequence[Term], tries: LocalTries, history: Sequence[int],
    steps_left: int, may_stop: bool,
) -> RootState:  # fmt: skip
    """`history`: the grammar actions of the session so far."""
    config, pieces = networks.config, tries.trie.piece
    keys, embeds = networks.vocabulary.keys[pieces], networks.vocabulary.embeds[pieces]
    # The first level of a trie has sources instead of pieces; nothing reads their keys.
    if config.word_context:
        counts, parents = _count_words(tries.trie.first_child, tries.trie.num_children, tries.trie.word)
        keys = keys + _means(networks.word_keys(encoded.terms), tries.trie.word, parents, counts)
        embeds = embeds + _means(networks.word_embeds(encoded.terms), tries.trie.word, parents, counts)
    prior_logits = np.zeros((2, len(pieces), 1), np.float32)
    if config.policy_prior:
        prior_logits = node_prior_logits(encoded.slot_scores, terms, tries)
    return RootState(
        networks.initial_latent(encoded.summary, history), networks.grammar.start(steps_left), tries, keys, embeds,
        prior_logits, node_rewards(encoded.slot_scores, tries, config), float(encoded.stop_score), may_stop,
    )  # fmt: skip


def node_rewards(slot_scores: Float32s, tries: LocalTries, config: NetworkConfig) -> Float32s:
    """[nodes, slots]: the predicted reward of the word that ends at a node; [nodes, 0] without a lookahead."""
    word = tries.trie.word
    if not config.lookahead_scale or not len(slot_scores):
        return np.zeros((len(word), 0), np.float32)
    return lookahead_rewards(slot_scores, config)[np.maximum(word, 0)]


def lookahead_rewards(slot_scores: NDArray[Any], config: NetworkConfig) -> Float32s:
    """[terms, slots]: the predicted rewards, from the lookahead's scaled predictions."""
    rewards: Float32s = slot_scores.astype(np.float32) * np.float32(
        REWARD_SHARE[config.reward_at] / config.lookahead_scale
    )
    return rewards


class NodeWords(NamedTuple):
    """The words below each node: pairs (node, word), and the number of words below each node [nodes]."""

    nodes: NDArray[np.int32]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]


def node_words(trie: Trie) -> NodeWords:
    """For the learner, which sums over all pairs at once."""
    counts, parents = _count_words(trie.first_child, trie.num_children, trie.word)
    nodes, words = _node_word_pairs(trie.word, parents)
    return NodeWords(nodes, words, counts)


@kernel
def _count_words(
    first: NDArray[np.int32], count: NDArray[np.uint16], word: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The number of words that end at or below each node, and each node's parent: both [nodes]."""
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
    """The mean [nodes, width] of the vectors [words, width] of all words below each node."""
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
def _node_word_pairs(
    word: NDArray[np.int32], parents: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    size = 0
    for node in range(len(word)):
        at = node if word[node] >= 0 else -1
        while at >= 0:
            size += 1
            at = parents[at]
    nodes, words = np.empty(size, np.int32), np.empty(size, np.int32)
    pair = 0
    for node in range(len(word)):
        at = node if word[node] >= 0 else -1
        while at >= 0:
            nodes[pair], words[pair] = at, word[node]
            pair += 1
            at = parents[at]
    return nodes, words


def node_prior_logits(slot_scores: Float32s, terms: Sequence[Term], tries: LocalTries) -> Float32s:
    """[2, nodes, slots]: log of the summed prior of all words below a node, and of the one that ends there.

    The prior of a word that occurs in several sources is divided among them, so that the sum over sources is right.
    """
    scores = slot_scores - np.log(_source_counts(terms)).astype(np.float32)
    _, parents = _count_words(tries.trie.first_child, tries.trie.num_children, tries.trie.word)
    return _sum_priors(scores, tries.trie.word, parents)


def _source_counts(terms: Sequence[Term]) -> Float32s:
    """[terms, slots]: the number of sources in which a term can be used with a slot."""
    in_source = np.array([[source in term.sources for source in LOCAL] for term in terms], np.float32)
    in_source = in_source.reshape(len(terms), len(LOCAL))
    title = in_source[:, LOCAL.index("title")]
    counts = np.ones((len(terms), len(SLOTS)), np.float32)
    for operator in range(len(OPERATORS)):
        for field in range(2):
            slot = SLOT_TABLE[operator, field]
            if slot >= 0:
                plain, rest = OPERATORS[operator].op == "or", in_source.sum(1) - title
                counts[:, slot] = in_source.sum(1) if plain else title if field == 1 else rest
    return np.maximum(counts, np.float32(1))


@kernel
def _sum_priors(scores: Float32s, word: NDArray[np.int32], parents: NDArray[np.int32]) -> Float32s:
    out = np.full((2, len(word), scores.shape[1]), NOWHERE, np.float32)
    for node in range(len(word) - 1, -1, -1):
        for slot in range(scores.shape[1]):
            if word[node] >= 0:
                out[1, node, slot] = scores[word[node], slot]
                out[0, node, slot] = np.logaddexp(out[0, node, slot], scores[word[node], slot])
            if parents[node] >= 0:
                out[0, parents[node], slot] = np.logaddexp(out[0, parents[node], slot], out[0, node, slot])
    return out
