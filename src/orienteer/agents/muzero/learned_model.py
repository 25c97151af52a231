"""The learned model for a batch of sessions, as the search needs it: latent and grammar states, actions, priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.grammar import (
    ANY_PIECE,
    FIELD,
    HAS_WORDS,
    MAY_STOP,
    NODE,
    OPERATOR,
    STACK,
    STATE_SIZE,
    USES_INDEX,
    WORD_ENDS,
    Int32s,
    QueryGrammar,
    Tables,
    TrieTables,
    advance,
    join_tries,
    legal_actions,
    max_legal_actions,
)  # fmt: skip
from orienteer.agents.muzero.mcts import Expansion
from orienteer.agents.muzero.networks import (
    Float32s,
    Linear,
    NetworkWeights,
    Vocabulary,
    deterministic_kernel,
    dynamics,
    exp_in_place,
    expected_value,
    head_hidden,
    key_logit,
    matmul,
    max_of,
    rule_logits,
)
from orienteer.agents.muzero.root import SLOT_TABLE, RootState
from orienteer.engine.embedded.kernels.compile import kernel

_BLOCK = 64


class _SharedTables(NamedTuple):
    """What all nodes of all trees share, for the kernels. The arrays of all sessions are concatenated."""

    tables: Tables
    trie_tables: TrieTables
    starts: Int32s
    keys: Float32s
    embeds: Float32s
    prior_logits: Float32s
    lookahead_rewards: Float32s
    stop_scores: Float32s
    piece_keys: Float32s
    piece_embeds: Float32s
    first_keys: Linear
    first_piece_actions: Int32s
    first_piece_nodes: Int32s
    slots: Int32s


class LearnedModel:
    """A `Model` for one search. It keeps the states of all nodes, and has room for one node more than a search makes.

    latents   [trees, nodes, 2 · lstm]
    states    [trees, nodes, STATE_SIZE] grammar states
    nodes     [trees, nodes, children] the trie node that each edge leads to
    """

    def __init__(
        self, roots: Sequence[RootState], vocabulary: Vocabulary, grammar: QueryGrammar, net: NetworkWeights,
        simulations: int, children: int,
    ) -> None:  # fmt: skip
        self._net = net
        trie_tables, starts = join_tries([s.tries for s in roots], [s.may_stop for s in roots], vocabulary.trie)
        first = vocabulary.trie.piece[1 : 1 + int(vocabulary.trie.num_children[0])]
        self._shared = _SharedTables(
            grammar.tables, trie_tables, starts,
            np.concatenate([root.keys for root in roots]), np.concatenate([root.embeds for root in roots]),
            np.concatenate([root.prior_logits for root in roots], axis=1),
            _joined([root.lookahead_rewards for root in roots]),
            np.array([root.stop_score for root in roots], np.float32),
            vocabulary.keys, vocabulary.embeds, vocabulary.first_keys,
            (len(grammar) + first.astype(np.int32)), np.arange(1, 1 + len(first), dtype=np.int32), SLOT_TABLE,
        )  # fmt: skip
        batch = len(roots)
        self.latents = np.empty((batch, simulations + 2, roots[0].latent.size), np.float32)
        self.latents[:, 0] = [root.latent for root in roots]
        self.states = np.empty((batch, simulations + 2, STATE_SIZE), np.int32)
        self.states[:, 0] = [
            _in_joined_tries(root.grammar_state, start) for root, start in zip(roots, starts, strict=False)
        ]
        self.nodes = np.empty((batch, simulations + 2, children), np.int32)  # the trie node of each edge
        self._children = children
        most = max_legal_actions(grammar, trie_tables)
        self._actions, self._places, self._logits = (
            np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.float32)
        )  # fmt: skip

    def roots(self) -> Expansion:
        everyone = np.arange(len(self.latents), dtype=np.int32)
        first = np.zeros(len(everyone), np.int32)
        return self._expand(everyone, first, np.zeros(len(everyone)))

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        reward = step_dynamics(
            trees, parents, edges, actions, nodes, self._net, self._shared, self.latents, self.states, self.nodes
        )
        return self._expand(trees, nodes, reward)

    def _expand(self, trees: Int32s, nodes: Int32s, reward: NDArray[np.float64]) -> Expansion:
        size = len(trees)
        actions, priors = np.empty((size, self._children), np.int32), np.empty((size, self._children), np.float32)
        counts = np.empty(size, np.int32)
        value = expand_nodes(
            trees, nodes, self._net, self._shared, self.latents, self.states, self.nodes,
            self._actions, self._places, self._logits, actions, priors, counts,
        )  # fmt: skip
        return Expansion(reward, value, actions, priors, counts)

    def local(self, tree: int, node: int) -> int:
        """A node of the joined tries, as numbered in its own session."""
        return node - int(self._shared.starts[tree]) if node >= 0 else node


def _joined(lookahead_rewards: Sequence[Float32s]) -> Float32s:
    """[all nodes, slots]; zeros for a session without words."""
    width = max(each.shape[1] for each in lookahead_rewards)
    return np.concatenate(
        [each if each.shape[1] else np.zeros((len(each), width), np.float32) for each in lookahead_rewards]
    )


def _in_joined_tries(state: Int32s, start: int) -> Int32s:
    """A session's grammar state, with its node as numbered in the joined tries."""
    moved = state.copy()
    if moved[NODE] >= 0 and not moved[USES_INDEX]:
        moved[NODE] += start
    return moved


@kernel
def step_dynamics(
    trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s, net: NetworkWeights,
    shared: _SharedTables,
    latents: Float32s, states: Int32s, edge_nodes: Int32s,
) -> NDArray[np.float64]:  # fmt: skip
    """g for new nodes: writes their latent and grammar states; returns their rewards [n]."""
    size = trees.size
    units = latents.shape[2] // 2
    rules = shared.tables.needs.size
    embeds = np.empty((size, net.rules.shape[1]), np.float32)
    before = np.empty((size, 2 * units), np.float32)
    after = np.empty((size, 2 * units), np.float32)
    words = np.empty(size, np.int32)
    for row in range(size):
        tree, parent, action = trees[row], parents[row], actions[row]
        node = edge_nodes[tree, parent, edges[row]]
        before[row] = latents[tree, parent]
        if action < rules:
            embeds[row] = net.rules[action]
        elif states[tree, parent, USES_INDEX]:
            embeds[row] = shared.piece_embeds[action - rules]
        else:
            embeds[row] = shared.embeds[node]
        words[row] = advance(
            states[tree, parent], tree, action, node, shared.tables, shared.trie_tables, states[tree, nodes[row]]
        )  # fmt: skip
    dynamics(embeds, before, net, after)
    for row in range(size):
        latents[trees[row], nodes[row]] = after[row]
    reward = expected_value(np.ascontiguousarray(after[:, :units]), net.reward, net.reward_support)
    for row in range(size):
        if net.reward_at_words and words[row] < 0:
            reward[row] = 0.0
        before_action = states[trees[row], parents[row]]
        if shared.lookahead_rewards.shape[1] > 0 and words[row] >= 0 and not before_action[USES_INDEX]:
            predicted = shared.lookahead_rewards[
                words[row], shared.slots[before_action[OPERATOR], before_action[FIELD]]
            ]
            reward[row] = reward[row] + predicted if net.reward_at_words else predicted
    return reward


@kernel
def expand_nodes(
    trees: Int32s, nodes: Int32s, net: NetworkWeights, shared: _SharedTables, latents: Float32s, states: Int32s,
    edge_nodes: Int32s,
    scratch: Int32s, positions: Int32s, logits: Float32s, actions: Int32s, priors: Float32s, counts: Int32s,
) -> NDArray[np.float64]:  # fmt: skip
    """f for nodes: writes their likeliest legal actions and priors; returns their values [n]."""
    size = trees.size
    latent = np.empty((size, latents.shape[2]), np.float32)
    for row in range(size):
        latent[row] = latents[trees[row], nodes[row]]
    queries = head_hidden(latent, net.policy)
    logits_of_rules = rule_logits(queries, net.policy)
    most = actions.shape[1]
    first_piece_row = np.empty(size, np.int64)
    num_first = 0
    for row in range(size):
        first_piece_row[row] = -1
        if _chooses_first_piece(states[trees[row], nodes[row]], shared.tables):
            first_piece_row[row] = num_first
            num_first += 1
    of_first_pieces = _first_piece_logits(queries, first_piece_row, num_first, shared.first_keys)
    for row in range(size):
        tree, node = trees[row], nodes[row]
        if first_piece_row[row] >= 0:
            counts[row] = keep_likeliest(
                len(shared.first_piece_nodes), of_first_pieces[first_piece_row[row]], shared.first_piece_actions,
                shared.first_piece_nodes, most, actions[row], priors[row], edge_nodes[tree, node],
            )  # fmt: skip
            continue
        count = legal_actions(states[tree, node], tree, shared.tables, shared.trie_tables, scratch, positions)
        action_logits(
            states[tree, node], tree, count, queries[row], logits_of_rules[row], net, shared, scratch, positions, logits
        )
        counts[row] = keep_likeliest(
            count, logits, scratch, positions, most, actions[row], priors[row], edge_nodes[tree, node]
        )
    return expected_value(latent, net.value, net.value_support)


@kernel
def _chooses_first_piece(state: Int32s, tables: Tables) -> bool:
    """Whether any first piece of the index is legal: the one choice among tens of thousands."""
    return bool(state[USES_INDEX] and state[NODE] == 0 and tables.takes[state[STACK]] == ANY_PIECE)


@kernel
def _first_piece_logits(
    queries: Float32s, first_piece_row: NDArray[np.int64], count: int, first_keys: Linear
) -> Float32s:
    """Logits [count, first pieces] for the nodes that choose among all first pieces, in one matrix product."""
    selected = np.empty((count, queries.shape[1]), np.float32)
    for row in range(len(first_piece_row)):
        if first_piece_row[row] >= 0:
            selected[first_piece_row[row]] = queries[row]
    logits = np.empty((count, len(first_keys.bias)), np.float32)
    matmul(selected, first_keys.matrix, first_keys.bias, logits)
    return logits


@kernel
def action_logits(
    state: Int32s, tree: int, count: int, query: Float32s, logits_of_rules: Float32s, net: NetworkWeights,
    shared: _SharedTables,
    actions: Int32s, positions: Int32s, logits: Float32s,
) -> None:  # fmt: skip
    """Writes the policy's logit of each of the first `count` actions."""
    rules = shared.tables.needs.size
    uses_index = state[USES_INDEX] != 0
    for position in range(count):
        action = actions[position]
        if action < rules:
            logits[position] = logits_of_rules[action]
        elif uses_index:
            logits[position] = key_logit(query, shared.piece_keys, action - rules)
        else:
            logits[position] = key_logit(query, shared.keys, positions[position])
    if uses_index or net.prior_scale == 0:
        return
    scale = np.float32(net.prior_scale)
    for position in range(count):
        logits[position] += scale * prior_logits(state, tree, actions[position], positions[position], shared)


@kernel
def prior_logits(state: Int32s, tree: int, action: int, node: int, shared: _SharedTables) -> float:
    """The prior of an action: the log of the summed prior of all refinements that it can lead to."""
    tables = shared.tables
    if action >= tables.needs.size:
        return float(shared.prior_logits[0, node, shared.slots[state[OPERATOR], state[FIELD]]])
    need = tables.needs[action]
    if need == MAY_STOP:
        return float(shared.stop_scores[tree])
    if need == WORD_ENDS:
        return float(shared.prior_logits[1, state[NODE], shared.slots[state[OPERATOR], state[FIELD]]])
    if need == HAS_WORDS and tables.operator[action] >= 0 and tables.field[action] >= 0 and tables.source[action] >= 0:
        operator = tables.operator[action]
        root = shared.trie_tables.roots[tree, tables.polarity[operator], tables.source[action]]
        return float(shared.prior_logits[0, root, shared.slots[operator, tables.field[action]]])
    return 0.0


@kernel
def keep_likeliest(
    count: int,
    logits: Float32s,
    scratch: Int32s,
    positions: Int32s,
    most: int,
    actions: Int32s,
    priors: Float32s,
    nodes: Int32s,
) -> int:
    """Softmax over all legal actions; writes the likeliest of them, highest first, ties by action."""
    if count == 0:
        return 0
    kept = min(count, most)
    total = softmax_numerators(logits[:count])
    chosen = np.arange(count)
    if count > most * _BLOCK:
        chosen = _top_positions(logits, count, most)
    order = np.argsort(-logits[chosen], kind="mergesort")
    for rank in range(kept):
        position = chosen[order[rank]]
        actions[rank], nodes[rank] = scratch[position], positions[position]
        priors[rank] = logits[position] / total
    return kept


@kernel
def _top_positions(values: Float32s, count: int, most: int) -> NDArray[np.int64]:
    """Positions that include the `most` highest values, in order.

    The `most`-th highest of the maxima of blocks is a lower bound of the `most`-th highest value.
    """
    blocks = (count + _BLOCK - 1) // _BLOCK
    best = np.empty(blocks, np.float32)
    for block in range(blocks):
        best[block] = max_of(values[block * _BLOCK : min(count, (block + 1) * _BLOCK)])
    least = np.partition(best, blocks - most)[blocks - most]
    kept = np.empty(count, np.int64)
    size = 0
    for block in range(blocks):
        if best[block] >= least:
            for position in range(block * _BLOCK, min(count, (block + 1) * _BLOCK)):
                kept[size] = position
                size += values[position] >= least
    return kept[:size]


@deterministic_kernel
def softmax_numerators(x: Float32s) -> float:
    """exp(x - max x), in place; returns the sum."""
    most = max_of(x)
    for k in range(x.size):
        x[k] -= most
    exp_in_place(x)
    total = np.float32(0)
    for k in range(x.size):
        total += x[k]
    return float(total)
