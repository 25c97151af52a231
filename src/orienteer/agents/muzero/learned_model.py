"""The learned world of many sessions, as the search asks for it: latent states, grammar states, masks, priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOT_OF, SLOTS
from orienteer.agents.muzero.deterministic_matmul import Floats, highest, powers, product, summing
from orienteer.agents.muzero.grammar import (
    ANY_PIECE,
    CROSSED,
    FIELD,
    HAS_WORDS,
    MAY_STOP,
    NODE,
    OPERATOR,
    OPERATORS,
    STACK,
    STATE,
    WORD_ENDS,
    Ints,
    QueryGrammar,
    Tables,
)  # fmt: skip
from orienteer.agents.muzero.legal_actions import Rooms, advance, join, legal, most_actions
from orienteer.agents.muzero.mcts.model import Expansion
from orienteer.agents.muzero.networks import Linear, Thinking, expected, forward, hidden, key_score, rule_scores
from orienteer.agents.muzero.tries import LocalTries, Trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.query import FIELDS

_BLOCK = 64
SLOT_TABLE = np.full((len(OPERATORS), len(FIELDS)), -1, np.int32)
for (_operator, _field), _number in SLOT_OF.items():
    SLOT_TABLE[OPERATORS.index(_operator), FIELDS.index(_field)] = _number


class Scene(NamedTuple):
    """Where one session's search starts, and the words that it may use.

    latent   [2 · lstm]
    state    of the grammar [6]
    keys     [nodes of the tries, head], embeds: [nodes, embed] of the piece that leads to each
    leaning  [2, nodes, slots]: what the cloned agent thinks of all words below a node, and of the one that ends there
    promised [nodes, slots]: the reward of a refinement with the word that ends there; [nodes, 0]: g foresees it
    stop     what it thinks of stopping
    """

    latent: Floats
    state: Ints
    tries: LocalTries
    keys: Floats
    embeds: Floats
    leaning: Floats
    promised: Floats
    stop: float
    may_stop: bool


class Vocabulary(NamedTuple):
    """The index's words, and every wordpiece without any context: keys [pieces, head], embeds [pieces, embed].

    `beginning` are the keys of the pieces that begin a word of the index, in the trie's order and side by side: a plan
    that has searched in thought chooses among all of them.
    """

    trie: Trie
    keys: Floats
    embeds: Floats
    beginning: Linear


def vocabulary(trie: Trie, keys: Floats, embeds: Floats) -> Vocabulary:
    first = keys[trie.piece[1 : 1 + int(trie.degree[0])]]
    padded = np.zeros((-(-len(first) // 4) * 4, keys.shape[1]), np.float32)
    padded[: len(first)] = first
    return Vocabulary(trie, keys, embeds, Linear(padded, np.zeros(len(padded), np.float32)))


class _Shared(NamedTuple):
    """What all nodes of all trees share, as kernels read it."""

    tables: Tables
    rooms: Rooms
    starts: Ints
    keys: Floats
    embeds: Floats
    leaning: Floats
    promised: Floats
    stops: Floats
    piece_keys: Floats
    piece_embeds: Floats
    beginning: Linear
    beginning_actions: Ints
    beginning_nodes: Ints
    slots: Ints


class LearnedWorld:
    """A `Model` for one search: states are kept here by (tree, node); there is room for one node more than it makes."""

    def __init__(
        self, scenes: Sequence[Scene], vocabulary: Vocabulary, grammar: QueryGrammar, net: Thinking,
        simulations: int, children: int,
    ) -> None:  # fmt: skip
        self._net = net
        rooms, starts = join([s.tries for s in scenes], [s.may_stop for s in scenes], vocabulary.trie)
        first = vocabulary.trie.piece[1 : 1 + int(vocabulary.trie.degree[0])]
        self._shared = _Shared(
            grammar.tables, rooms, starts,
            np.concatenate([scene.keys for scene in scenes]), np.concatenate([scene.embeds for scene in scenes]),
            np.concatenate([scene.leaning for scene in scenes], axis=1), _joined([scene.promised for scene in scenes]),
            np.array([scene.stop for scene in scenes], np.float32),
            vocabulary.keys, vocabulary.embeds, vocabulary.beginning,
            (len(grammar) + first.astype(np.int32)), np.arange(1, 1 + len(first), dtype=np.int32), SLOT_TABLE,
        )  # fmt: skip
        batch = len(scenes)
        self.latents = np.empty((batch, simulations + 2, scenes[0].latent.size), np.float32)
        self.latents[:, 0] = [scene.latent for scene in scenes]
        self.states = np.empty((batch, simulations + 2, STATE), np.int32)
        self.states[:, 0] = [_moved(scene.state, start) for scene, start in zip(scenes, starts, strict=False)]
        self.nodes = np.empty((batch, simulations + 2, children), np.int32)  # the trie node of each edge
        self._children = children
        most = most_actions(grammar, rooms)
        self._actions, self._places, self._logits = (
            np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.float32)
        )  # fmt: skip

    def roots(self) -> Expansion:
        everyone = np.arange(len(self.latents), dtype=np.int32)
        first = np.zeros(len(everyone), np.int32)
        return self._expanded(everyone, first, np.zeros(len(everyone)))

    def step(self, trees: Ints, parents: Ints, edges: Ints, actions: Ints, nodes: Ints) -> Expansion:
        reward = think(
            trees, parents, edges, actions, nodes, self._net, self._shared, self.latents, self.states, self.nodes
        )
        return self._expanded(trees, nodes, reward)

    def _expanded(self, trees: Ints, nodes: Ints, reward: NDArray[np.float64]) -> Expansion:
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


def _joined(promised: Sequence[Floats]) -> Floats:
    """Those of all sessions; a session without words has nothing to say about them."""
    width = max(each.shape[1] for each in promised)
    return np.concatenate([each if each.shape[1] else np.zeros((len(each), width), np.float32) for each in promised])


def _moved(state: Ints, start: int) -> Ints:
    """A session's own grammar state in the joined tries."""
    moved = state.copy()
    if moved[NODE] >= 0 and not moved[CROSSED]:
        moved[NODE] += start
    return moved


@kernel
def think(
    trees: Ints, parents: Ints, edges: Ints, actions: Ints, nodes: Ints, net: Thinking, shared: _Shared,
    latents: Floats, states: Ints, edge_nodes: Ints,
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
        elif states[tree, parent, CROSSED]:
            embeds[row] = shared.piece_embeds[action - rules]
        else:
            embeds[row] = shared.embeds[node]
        words[row] = advance(
            states[tree, parent], tree, action, node, shared.tables, shared.rooms, states[tree, nodes[row]]
        )  # fmt: skip
    forward(embeds, before, net, after)
    for row in range(size):
        latents[trees[row], nodes[row]] = after[row]
    reward = expected(np.ascontiguousarray(after[:, :units]), net.reward, net.reward_support)
    for row in range(size):
        if net.words_pay and words[row] < 0:
            reward[row] = 0.0
        asked = states[trees[row], parents[row]]
        if shared.promised.shape[1] > 0 and words[row] >= 0 and not asked[CROSSED]:
            promise = shared.promised[words[row], shared.slots[asked[OPERATOR], asked[FIELD]]]
            reward[row] = reward[row] + promise if net.words_pay else promise
    return reward


@kernel
def expand(
    trees: Ints, nodes: Ints, net: Thinking, shared: _Shared, latents: Floats, states: Ints, edge_nodes: Ints,
    scratch: Ints, places: Ints, logits: Floats, actions: Ints, priors: Floats, counts: Ints,
) -> NDArray[np.float64]:  # fmt: skip
    """f for nodes: writes their likeliest legal actions and priors, gives the values."""
    size = trees.size
    found = np.empty((size, latents.shape[2]), np.float32)
    for row in range(size):
        found[row] = latents[trees[row], nodes[row]]
    queries = hidden(found, net.policy)
    of_rules = rule_scores(queries, net.policy)
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
        count = legal(states[tree, node], tree, shared.tables, shared.rooms, scratch, places)
        score(states[tree, node], tree, count, queries[row], of_rules[row], net, shared, scratch, places, logits)
        counts[row] = keep(count, logits, scratch, places, most, actions[row], priors[row], edge_nodes[tree, node])
    return expected(found, net.value, net.value_support)


@kernel
def _begins_word(state: Ints, tables: Tables) -> bool:
    """Whether any first piece of the index can follow: the one choice among many thousands."""
    return bool(state[CROSSED] and state[NODE] == 0 and tables.takes[state[STACK]] == ANY_PIECE)


@kernel
def _beginning_scores(queries: Floats, begins: NDArray[np.int64], count: int, beginning: Linear) -> Floats:
    """The scores of all first pieces, for the nodes that choose among them, in one product [count, pieces]."""
    wanted = np.empty((count, queries.shape[1]), np.float32)
    for row in range(len(begins)):
        if begins[row] >= 0:
            wanted[begins[row]] = queries[row]
    found = np.empty((count, len(beginning.bias)), np.float32)
    product(wanted, beginning.matrix, beginning.bias, found)
    return found


@kernel
def score(
    state: Ints, tree: int, count: int, query: Floats, of_rules: Floats, net: Thinking, shared: _Shared,
    actions: Ints, places: Ints, logits: Floats,
) -> None:  # fmt: skip
    """Writes the policy's score of each of the first `count` actions."""
    rules = shared.tables.needs.size
    crossed = state[CROSSED] != 0
    for place in range(count):
        action = actions[place]
        if action < rules:
            logits[place] = of_rules[action]
        elif crossed:
            logits[place] = key_score(query, shared.piece_keys, action - rules)
        else:
            logits[place] = key_score(query, shared.keys, places[place])
    if crossed or net.prior_scale == 0:
        return
    scale = np.float32(net.prior_scale)
    for place in range(count):
        logits[place] += scale * leaning(state, tree, actions[place], places[place], shared)


@kernel
def leaning(state: Ints, tree: int, action: int, node: int, shared: _Shared) -> float:
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
        root = shared.rooms.roots[tree, tables.polarity[operator], tables.source[action]]
        return float(shared.leaning[0, root, shared.slots[operator, tables.field[action]]])
    return 0.0


@kernel
def keep(
    count: int, logits: Floats, scratch: Ints, places: Ints, most: int, actions: Ints, priors: Floats, nodes: Ints
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
        place = chosen[order[rank]]
        actions[rank], nodes[rank] = scratch[place], places[place]
        priors[rank] = logits[place] / total
    return kept


@kernel
def _candidates(values: Floats, count: int, most: int) -> NDArray[np.int64]:
    """Places among which the `most` highest values are, in order.

    Every block has a highest value; of so many blocks the least of these is no more than the least to be kept.
    """
    blocks = (count + _BLOCK - 1) // _BLOCK
    best = np.empty(blocks, np.float32)
    for block in range(blocks):
        best[block] = highest(values[block * _BLOCK : min(count, (block + 1) * _BLOCK)])
    least = np.partition(best, blocks - most)[blocks - most]
    found = np.empty(count, np.int64)
    size = 0
    for block in range(blocks):
        if best[block] >= least:
            for place in range(block * _BLOCK, min(count, (block + 1) * _BLOCK)):
                found[size] = place
                size += values[place] >= least
    return found[:size]


@summing
def shares(x: Floats) -> float:
    """e to the power of each less the highest, in place, and their sum."""
    most = highest(x)
    for k in range(x.size):
        x[k] -= most
    powers(x)
    total = np.float32(0)
    for k in range(x.size):
        total += x[k]
    return float(total)


assert len(SLOTS) == SLOT_TABLE.max() + 1
