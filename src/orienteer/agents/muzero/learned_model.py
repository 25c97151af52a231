"""The learned world of many sessions, as the search asks for it: latent states, grammar states, masks, priors."""

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
from orienteer.agents.muzero.mcts.search import Expansion
from orienteer.agents.muzero.networks import (
    Float32s,
    Linear,
    NetworkWeights,
    Vocabulary,
    deterministic_kernel,
    exp_in_place,
    expected_value,
    forward,
    head_hidden,
    key_logit,
    matmul,
    max_of,
    rule_logits,
)
from orienteer.agents.muzero.root import SLOT_TABLE, RootState
from orienteer.engine.embedded.kernels.compile import kernel

_BLOCK = 64


class _Shared(NamedTuple):
    """What all nodes of all trees share, as kernels read it."""

    tables: Tables
    trie_tables: TrieTables
    starts: Int32s
    keys: Float32s
    embeds: Float32s
    leaning: Float32s
    promised: Float32s
    stops: Float32s
    piece_keys: Float32s
    piece_embeds: Float32s
    beginning: Linear
    beginning_actions: Int32s
    beginning_nodes: Int32s
    slots: Int32s


class LearnedModel:
    """A `Model` for one search: states are kept here by (tree, node); there is room for one node more than it makes."""

    def __init__(
        self, roots: Sequence[RootState], vocabulary: Vocabulary, grammar: QueryGrammar, net: NetworkWeights,
        simulations: int, children: int,
    ) -> None:  # fmt: skip
        self._net = net
        trie_tables, starts = join_tries([s.tries for s in roots], [s.may_stop for s in roots], vocabulary.trie)
        first = vocabulary.trie.piece[1 : 1 + int(vocabulary.trie.num_children[0])]
        self._shared = _Shared(
            grammar.tables, trie_tables, starts,
            np.concatenate([root.keys for root in roots]), np.concatenate([root.embeds for root in roots]),
            np.concatenate([root.prior_logits for root in roots], axis=1),
            _joined([root.lookahead_rewards for root in roots]),
            np.array([root.stop_score for root in roots], np.float32),
            vocabulary.keys, vocabulary.embeds, vocabulary.beginning,
            (len(grammar) + first.astype(np.int32)), np.arange(1, 1 + len(first), dtype=np.int32), SLOT_TABLE,
        )  # fmt: skip
        batch = len(roots)
        self.latents = np.empty((batch, simulations + 2, roots[0].latent.size), np.float32)
        self.latents[:, 0] = [root.latent for root in roots]
        self.states = np.empty((batch, simulations + 2, STATE_SIZE), np.int32)
        self.states[:, 0] = [_moved(root.grammar_state, start) for root, start in zip(roots, starts, strict=False)]
        self.nodes = np.empty((batch, simulations + 2, children), np.int32)  # the trie node of each edge
        self._children = children
        most = max_legal_actions(grammar, trie_tables)
        self._actions, self._places, self._logits = (
            np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.float32)
        )  # fmt: skip

    def roots(self) -> Expansion:
        everyone = np.arange(len(self.latents), dtype=np.int32)
        first = np.zeros(len(everyone), np.int32)
        return self._expanded(everyone, first, np.zeros(len(everyone)))

    def step(self, trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s) -> Expansion:
        reward = think(
            trees, parents, edges, actions, nodes, self._net, self._shared, self.latents, self.states, self.nodes
        )
        return self._expanded(trees, nodes, reward)

    def _expanded(self, trees: Int32s, nodes: Int32s, reward: NDArray[np.float64]) -> Expansion:
        size = len(trees)
        actions, priors = np.empty((size, self._children), np.int32), np.empty((size, self._children), np.float32)
        counts = np.empty(size, np.int32)
        value = expand(
            trees, nodes, self._net, self._shared, self.latents, self.states, self.nodes,
            self._actions, self._places, self._logits, actions, priors, counts,
        )  # fmt: skip
        return Expansion(reward, value, actions, priors, counts)

    def local(self, tree: int, node: int) -> int:
        """A node of the joined tries as its own session numbers it."""
        return node - int(self._shared.starts[tree]) if node >= 0 else node


def _joined(promised: Sequence[Float32s]) -> Float32s:
    """Those of all sessions; a session without words has nothing to say about them."""
    width = max(each.shape[1] for each in promised)
    return np.concatenate([each if each.shape[1] else np.zeros((len(each), width), np.float32) for each in promised])


def _moved(state: Int32s, start: int) -> Int32s:
    """A session's own grammar state in the joined tries."""
    moved = state.copy()
    if moved[NODE] >= 0 and not moved[USES_INDEX]:
        moved[NODE] += start
    return moved


@kernel
def think(
    trees: Int32s, parents: Int32s, edges: Int32s, actions: Int32s, nodes: Int32s, net: NetworkWeights, shared: _Shared,
    latents: Float32s, states: Int32s, edge_nodes: Int32s,
) -> NDArray[np.float64]:  # fmt: skip
    """g for new nodes: writes their latent and grammar states, gives the rewards."""
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
    forward(embeds, before, net, after)
    for row in range(size):
        latents[trees[row], nodes[row]] = after[row]
    reward = expected_value(np.ascontiguousarray(after[:, :units]), net.reward, net.reward_support)
    for row in range(size):
        if net.words_pay and words[row] < 0:
            reward[row] = 0.0
        asked = states[trees[row], parents[row]]
        if shared.promised.shape[1] > 0 and words[row] >= 0 and not asked[USES_INDEX]:
            promise = shared.promised[words[row], shared.slots[asked[OPERATOR], asked[FIELD]]]
            reward[row] = reward[row] + promise if net.words_pay else promise
    return reward


@kernel
def expand(
    trees: Int32s, nodes: Int32s, net: NetworkWeights, shared: _Shared, latents: Float32s, states: Int32s,
    edge_nodes: Int32s,
    scratch: Int32s, positions: Int32s, logits: Float32s, actions: Int32s, priors: Float32s, counts: Int32s,
) -> NDArray[np.float64]:  # fmt: skip
    """f for nodes: writes their likeliest legal actions and priors, gives the values."""
    size = trees.size
    found = np.empty((size, latents.shape[2]), np.float32)
    for row in range(size):
        found[row] = latents[trees[row], nodes[row]]
    queries = head_hidden(found, net.policy)
    of_rules = rule_logits(queries, net.policy)
    most = actions.shape[1]
    begins = np.empty(size, np.int64)
    beginning = 0
    for row in range(size):
        begins[row] = -1
        if _begins_word(states[trees[row], nodes[row]], shared.tables):
            begins[row] = beginning
            beginning += 1
    of_beginnings = _beginning_scores(queries, begins, beginning, shared.beginning)
    for row in range(size):
        tree, node = trees[row], nodes[row]
        if begins[row] >= 0:
            counts[row] = keep(
                len(shared.beginning_nodes), of_beginnings[begins[row]], shared.beginning_actions,
                shared.beginning_nodes, most, actions[row], priors[row], edge_nodes[tree, node],
            )  # fmt: skip
            continue
        count = legal_actions(states[tree, node], tree, shared.tables, shared.trie_tables, scratch, positions)
        score(states[tree, node], tree, count, queries[row], of_rules[row], net, shared, scratch, positions, logits)
        counts[row] = keep(count, logits, scratch, positions, most, actions[row], priors[row], edge_nodes[tree, node])
    return expected_value(found, net.value, net.value_support)


@kernel
def _begins_word(state: Int32s, tables: Tables) -> bool:
    """Whether any first piece of the index can follow: the one choice among many thousands."""
    return bool(state[USES_INDEX] and state[NODE] == 0 and tables.takes[state[STACK]] == ANY_PIECE)


@kernel
def _beginning_scores(queries: Float32s, begins: NDArray[np.int64], count: int, beginning: Linear) -> Float32s:
    """The scores of all first pieces, for the nodes that choose among them, in one product [count, pieces]."""
    wanted = np.empty((count, queries.shape[1]), np.float32)
    for row in range(len(begins)):
        if begins[row] >= 0:
            wanted[begins[row]] = queries[row]
    found = np.empty((count, len(beginning.bias)), np.float32)
    matmul(wanted, beginning.matrix, beginning.bias, found)
    return found


@kernel
def score(
    state: Int32s, tree: int, count: int, query: Float32s, of_rules: Float32s, net: NetworkWeights, shared: _Shared,
    actions: Int32s, positions: Int32s, logits: Float32s,
) -> None:  # fmt: skip
    """Writes the policy's score of each of the first `count` actions."""
    rules = shared.tables.needs.size
    uses_index = state[USES_INDEX] != 0
    for position in range(count):
        action = actions[position]
        if action < rules:
            logits[position] = of_rules[action]
        elif uses_index:
            logits[position] = key_logit(query, shared.piece_keys, action - rules)
        else:
            logits[position] = key_logit(query, shared.keys, positions[position])
    if uses_index or net.prior_scale == 0:
        return
    scale = np.float32(net.prior_scale)
    for position in range(count):
        logits[position] += scale * leaning(state, tree, actions[position], positions[position], shared)


@kernel
def leaning(state: Int32s, tree: int, action: int, node: int, shared: _Shared) -> float:
    """What the cloned agent thinks of an action: the log of the weight of all refinements that it leads to."""
    tables = shared.tables
    if action >= tables.needs.size:
        return float(shared.leaning[0, node, shared.slots[state[OPERATOR], state[FIELD]]])
    need = tables.needs[action]
    if need == MAY_STOP:
        return float(shared.stops[tree])
    if need == WORD_ENDS:
        return float(shared.leaning[1, state[NODE], shared.slots[state[OPERATOR], state[FIELD]]])
    if need == HAS_WORDS and tables.operator[action] >= 0 and tables.field[action] >= 0 and tables.source[action] >= 0:
        operator = tables.operator[action]
        root = shared.trie_tables.roots[tree, tables.polarity[operator], tables.source[action]]
        return float(shared.leaning[0, root, shared.slots[operator, tables.field[action]]])
    return 0.0


@kernel
def keep(
    count: int,
    logits: Float32s,
    scratch: Int32s,
    positions: Int32s,
    most: int,
    actions: Int32s,
    priors: Float32s,
    nodes: Int32s,
) -> int:
    """Softmax over all legal actions; writes the likeliest of them, highest first, equal ones by action."""
    if count == 0:
        return 0
    kept = min(count, most)
    total = shares(logits[:count])
    chosen = np.arange(count)
    if count > most * _BLOCK:
        chosen = _candidates(logits, count, most)
    order = np.argsort(-logits[chosen], kind="mergesort")
    for rank in range(kept):
        position = chosen[order[rank]]
        actions[rank], nodes[rank] = scratch[position], positions[position]
        priors[rank] = logits[position] / total
    return kept


@kernel
def _candidates(values: Float32s, count: int, most: int) -> NDArray[np.int64]:
    """Places among which the `most` highest values are, in order.

    Every block has a highest value; of so many blocks the least of these is no more than the least to be kept.
    """
    blocks = (count + _BLOCK - 1) // _BLOCK
    best = np.empty(blocks, np.float32)
    for block in range(blocks):
        best[block] = max_of(values[block * _BLOCK : min(count, (block + 1) * _BLOCK)])
    least = np.partition(best, blocks - most)[blocks - most]
    found = np.empty(count, np.int64)
    size = 0
    for block in range(blocks):
        if best[block] >= least:
            for position in range(block * _BLOCK, min(count, (block + 1) * _BLOCK)):
                found[size] = position
                size += values[position] >= least
    return found[:size]


@deterministic_kernel
def shares(x: Float32s) -> float:
    """e to the power of each less the highest, in place, and their sum."""
    most = max_of(x)
    for k in range(x.size):
        x[k] -= most
    exp_in_place(x)
    total = np.float32(0)
    for k in range(x.size):
        total += x[k]
    return float(total)
