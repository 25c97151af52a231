"""Turns as tensors: where each unrolling starts, the actions along it, and at every place what there was to choose.

An unrolling starts where h saw something, at the first rule of a turn. Once the turn's query is asked, the model is on
its own, as it is inside a plan: later rules are those that take words from the index, and later pieces have no context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Sizes
from orienteer.agents.muzero.grammar import (
    ANY_PIECE,
    CROSSED,
    FIELD,
    MAY_STOP,
    NODE,
    OPERATOR,
    STACK,
    WORD_ENDS,
    Ints,
    QueryGrammar,
    in_index,
)  # fmt: skip
from orienteer.agents.muzero.learned_model import SLOT_TABLE
from orienteer.agents.muzero.legal_actions import Rooms, join, legal, most_actions
from orienteer.agents.muzero.replay import Path
from orienteer.agents.muzero.root import lean, node_words, promised_rewards
from orienteer.agents.muzero.trajectory import Episode, Turn
from orienteer.agents.muzero.tries import Trie

RULE, LOCAL_PIECE, INDEX_PIECE = range(3)  # what a candidate is


@dataclass(frozen=True, slots=True)
class Start:
    """A place to unroll from: an episode, its path, a turn, the first rule whose losses count, and a weight.

    `worth` is False where only the policy is to be learned: rewards that another player got tell nothing of one's own.
    """

    episode: Episode
    path: Path
    turn: int
    skip: int = 0
    weight: float = 1.0
    worth: bool = True


@dataclass(frozen=True, slots=True)
class Candidates:
    """Everything that could be chosen at some places, end to end.

    place, row   which place of the unrolling, which row of the batch
    kind, id     a rule, a node of the batch's tries, or a wordpiece
    lean         what the cloned agent thinks of it
    share        the target
    """

    place: Ints
    row: Ints
    kind: NDArray[np.int8]
    id: Ints
    lean: NDArray[np.float32]
    share: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """B unrollings of at most P places after the first.

    turns            the turns at which they start
    past, lengths    [B, past], [B]
    kinds, ids       [P, B] of the actions taken; -1 past the end
    reward, value    [P + 1, B] targets; `reward` of the action that led to a place
    has_reward, has_value, has_policy   [P + 1, B] whether the loss there counts
    weight           [B]
    candidates       those of all choices but
    beginnings       the choices among all first pieces of the index: place, row; and their targets: choice, piece's
                     place among them, share
    nodes            which word lies below which node of the batch's tries (word numbers run through the batch)
    pieces           [nodes] the piece of each node
    """

    turns: tuple[Turn, ...]
    past: Ints
    lengths: Ints
    kinds: NDArray[np.int8]
    ids: Ints
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    has_reward: NDArray[np.float32]
    has_value: NDArray[np.float32]
    has_policy: NDArray[np.float32]
    weight: NDArray[np.float32]
    candidates: Candidates
    beginnings: Ints
    beginning_targets: tuple[Ints, Ints, NDArray[np.float32]]
    node_of: Ints
    word_of: Ints
    word_counts: NDArray[np.float32]
    pieces: Ints


class _Step(NamedTuple):
    """A rule along an unrolling: the value before it, and the reward after it, which counts where it `pays`.

    `turn` is -1 past the end; `end` is the rule that ends a word, where that is not among the rules that were taken.
    """

    turn: int
    rule: int
    value: float
    reward: float
    pays: bool
    end: int = -1


class Batcher:
    """Makes batches; knows the grammar and the index's words."""

    def __init__(self, grammar: QueryGrammar, index: Trie, unroll: int, sizes: Sizes, discount: float) -> None:
        self._grammar, self._index, self._unroll = grammar, index, unroll
        self._sizes, self._discount = sizes, discount

    @cached_property
    def _index_stacks(self) -> Ints:
        """[stacks]: the stack with every word's source changed into the index."""
        number = {stack: place for place, stack in enumerate(self._grammar.stacks)}
        return np.array([number[tuple(map(in_index, stack))] for stack in self._grammar.stacks], np.int32)

    def __call__(self, starts: Sequence[Start]) -> Batch:
        turns = tuple(start.episode.turns[start.turn] for start in starts)
        rooms, offsets = join([turn.tries for turn in turns], [turn.may_stop for turn in turns], self._index)
        places = max(start.skip for start in starts) + self._unroll
        made = _Making(self, starts, turns, rooms, offsets, places)
        for row, start in enumerate(starts):
            made.add(row, start)
        return made.batch()


class _Making:
    """A batch as it grows."""

    def __init__(
        self, maker: Batcher, starts: Sequence[Start], turns: tuple[Turn, ...], rooms: Rooms, offsets: Ints, places: int
    ) -> None:
        self._grammar, self._index, self._stacks = maker._grammar, maker._index, maker._index_stacks
        self._unroll, self._sizes, self._discount = maker._unroll, maker._sizes, maker._discount
        self._turns, self._rooms, self._offsets = turns, rooms, offsets
        size = len(starts)
        self._kinds, self._ids = np.full((places, size), -1, np.int8), np.zeros((places, size), np.int32)
        self._reward, self._value, self._has_reward, self._has_value, self._has_policy = (
            np.zeros((places + 1, size), np.float32) for _ in range(5)
        )
        self._weight = np.array([start.weight for start in starts], np.float32)
        self._parts: list[tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._beginnings: list[tuple[int, int]] = []
        self._beginning_targets: list[tuple[int, Ints, NDArray[np.float32]]] = []
        most = most_actions(self._grammar, rooms)
        self._actions, self._nodes = np.empty(most, np.int32), np.empty(most, np.int32)
        longest = max((len(turn.past) for turn in turns), default=0)
        self._past = np.full((size, min(longest, maker._sizes.past)), -1, np.int32)
        self._lengths = np.zeros(size, np.int32)
        for row, turn in enumerate(turns):
            own = turn.past[-maker._sizes.past :]
            self._past[row, : len(own)] = own
            self._lengths[row] = len(own)

    def add(self, row: int, start: Start) -> None:
        turns = start.episode.turns
        leaning = None
        if self._sizes.prior:
            turn = turns[start.turn]
            leaning = lean(turn.slots.astype(np.float32), turn.where, turn.tries)
        reward, pays = 0.0, False
        for place, step in enumerate(islice(self._steps(start), start.skip + self._unroll + 1)):
            counts = place >= start.skip
            self._has_value[place, row] = counts and start.worth
            self._value[place, row] = step.value
            if place > 0:
                self._reward[place, row] = reward
                self._has_reward[place, row] = counts and start.worth and place > start.skip and pays
            if step.turn < 0:
                break
            own = step.turn == start.turn
            reward, pays = step.reward, step.pays
            if counts and self._choice(place, row, turns[step.turn], step, own, leaning):
                self._has_policy[place, row] = 1
            if place < len(self._kinds):
                self._kinds[place, row], self._ids[place, row] = self._taken(row, turns[step.turn], step, own)

    def _steps(self, start: Start) -> Iterator[_Step]:
        """The rules from a start on as the model takes them, and after the last one a step without a turn."""
        path, turns = start.path, start.episode.turns
        for at in range(int(path.starts[start.turn]), int(path.starts[-1])):
            number, rule = int(path.turn[at]), int(path.rule[at])
            turn, own, reward = turns[number], number == start.turn, float(path.reward[at])
            last = rule == len(turn.actions) - 1
            whole = last and int(turn.actions[rule]) != self._grammar.stop
            if whole and own and self._sizes.paying == "words" and self._sizes.look:
                reward -= self._promised(turn)
            pays = whole or self._sizes.paying == "rules"
            end = -1 if own or not whole else self._end(turn, rule)
            if end < 0:
                yield _Step(number, rule, float(path.target[at]), reward, pays)
                continue
            yield _Step(number, rule, float(path.target[at]), 0.0, self._sizes.paying == "rules")
            worth = float(path.reward[at] + self._discount * path.target[at + 1])
            yield _Step(number, rule, worth, reward, pays, end)
        yield _Step(-1, 0, float(path.target[int(path.starts[-1])]), 0.0, False)

    def _end(self, turn: Turn, rule: int) -> int:
        """The rule that ends a word where the index, unlike the observation, has longer ones; -1 where none is due."""
        state = turn.states[rule].copy()
        piece = int(turn.actions[rule]) - len(self._grammar)
        if piece < 0 or not self._as_index(state, turn, rule):
            return -1
        tables = self._grammar.tables
        node, after = self._index.child(int(state[NODE]), piece), int(tables.after_piece[state[STACK]])
        goes_on = node >= 0 and self._index.degree[node] > 0
        return int(tables.ends[after]) if goes_on and after >= 0 else -1

    def _promised(self, turn: Turn) -> float:
        """The reward that the refinement of a turn promised: f has to tell what came besides."""
        state, node = turn.states[-1], int(turn.nodes[-1])
        node = node if node >= 0 else int(state[NODE])
        slot = SLOT_TABLE[state[OPERATOR], state[FIELD]]
        return float(promised_rewards(turn.slots[turn.word[node], slot], self._sizes))

    def _taken(self, row: int, turn: Turn, step: _Step, own: bool) -> tuple[int, int]:
        action = int(turn.actions[step.rule]) if step.end < 0 else step.end
        rules = len(self._grammar)
        if action < rules:
            return RULE, action if own else int(self._grammar.as_index[action])
        if own:
            return LOCAL_PIECE, int(turn.nodes[step.rule]) + int(self._offsets[row])
        return INDEX_PIECE, action - rules

    def _choice(
        self, place: int, row: int, turn: Turn, step: _Step, own: bool, leaning: NDArray[np.float32] | None
    ) -> bool:
        """Adds what there was to choose; False where the target has no part in it."""
        rule = step.rule
        state = turn.states[rule].copy()
        if own and state[NODE] >= 0:
            state[NODE] += self._offsets[row]
        if not own and not self._as_index(state, turn, rule):
            return False
        if step.end < 0 and not own and state[NODE] == 0 and self._grammar.tables.takes[state[STACK]] == ANY_PIECE:
            return self._beginning(place, row, turn, rule)
        if step.end >= 0:
            piece = int(turn.actions[rule]) - len(self._grammar)
            state[NODE] = self._index.child(int(state[NODE]), piece)
            state[STACK] = self._grammar.tables.after_piece[state[STACK]]
        count = legal(state, row, self._grammar.tables, self._rooms, self._actions, self._nodes)
        actions, nodes = self._actions[:count].copy(), self._nodes[:count].copy()
        wanted, shares = turn.policy(rule) if step.end < 0 else (np.array([step.end], np.int32), np.ones(1, np.float32))
        if not own:
            rules = wanted < len(self._grammar)
            wanted = np.where(rules, self._grammar.as_index[np.where(rules, wanted, 0)], wanted)
        found = np.searchsorted(actions, wanted)
        good = (found < count) & (actions[np.minimum(found, count - 1)] == wanted) if count else np.zeros(0, np.bool_)
        if count < 2 or not good.any():
            return False
        total = float(shares[good].sum())
        if total <= 0:
            return False
        share = np.zeros(count, np.float32)
        np.add.at(share, found[good], (shares[good] / total).astype(np.float32))
        kind = np.where(actions < len(self._grammar), RULE, LOCAL_PIECE if own else INDEX_PIECE).astype(np.int8)
        ids = np.where(kind == RULE, actions, nodes if own else actions - len(self._grammar)).astype(np.int32)
        leans = np.zeros(count, np.float32)
        if own and leaning is not None:
            leans = self._leans(turn, rule, row, actions, nodes, leaning)
        self._parts.append((place, row, kind, ids, leans, share))
        return True

    def _beginning(self, place: int, row: int, turn: Turn, rule: int) -> bool:
        """Adds a choice among all first pieces of the index, which are not written down one by one."""
        wanted, shares = turn.policy(rule)
        first = self._index.piece[1 : 1 + int(self._index.degree[0])]
        pieces = wanted - len(self._grammar)
        found = np.minimum(np.searchsorted(first, pieces), len(first) - 1)
        good = first[found] == pieces
        total = float(shares[good].sum())
        if total <= 0:
            return False
        self._beginning_targets.append((len(self._beginnings), found[good], (shares[good] / total).astype(np.float32)))
        self._beginnings.append((place, row))
        return True

    def _as_index(self, state: Ints, turn: Turn, rule: int) -> bool:
        """The state as a plan would have it that has searched in thought; False where the index lacks the word."""
        state[STACK], state[CROSSED] = self._stacks[state[STACK]], 1
        if state[NODE] < 0:
            return True
        node = 0
        for action in turn.actions[:rule]:
            if action >= len(self._grammar):
                node = self._index.child(node, int(action) - len(self._grammar))
                if node < 0:
                    return False
        state[NODE] = node
        return True

    def _leans(
        self, turn: Turn, rule: int, row: int, actions: Ints, nodes: Ints, leaning: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What the cloned agent thinks of each action, as `world.leaning` has it."""
        tables, state = self._grammar.tables, turn.states[rule]
        found = np.zeros(len(actions), np.float32)
        slot = SLOT_TABLE[state[OPERATOR], state[FIELD]] if state[OPERATOR] >= 0 and state[FIELD] >= 0 else -1
        for place, (action, node) in enumerate(zip(actions.tolist(), nodes.tolist(), strict=True)):
            if action >= len(self._grammar):
                found[place] = leaning[0, node - self._offsets[row], slot]
            elif tables.needs[action] == MAY_STOP:
                found[place] = turn.stop
            elif tables.needs[action] == WORD_ENDS:
                found[place] = leaning[1, state[NODE], slot]
            elif min(tables.operator[action], tables.field[action], tables.source[action]) >= 0:
                operator = tables.operator[action]
                root = turn.tries.roots[tables.polarity[operator], tables.source[action]]
                found[place] = leaning[0, root, SLOT_TABLE[operator, tables.field[action]]]
        return found

    def batch(self) -> Batch:
        parts = self._parts
        sizes = [len(part[2]) for part in parts]
        places = np.repeat(np.array([part[0] for part in parts], np.int32), sizes)
        rows = np.repeat(np.array([part[1] for part in parts], np.int32), sizes)
        candidates = Candidates(
            places, rows,
            *(_joined([part[column] for part in parts], kind) for column, kind in (
                (2, np.int8), (3, np.int32), (4, np.float32), (5, np.float32),
            )),
        )  # fmt: skip
        words = [node_words(turn.tries.trie) for turn in self._turns]
        firsts = np.concatenate([[0], np.cumsum([len(turn.terms) for turn in self._turns])])
        targets = self._beginning_targets
        sizes = [len(each[1]) for each in targets]
        return Batch(
            self._turns, self._past, self._lengths, self._kinds, self._ids, self._reward, self._value,
            self._has_reward, self._has_value, self._has_policy, self._weight, candidates,
            np.array(self._beginnings, np.int32).reshape(-1, 2),
            (
                np.repeat(np.array([each[0] for each in targets], np.int32), sizes),
                _joined([each[1] for each in targets], np.int32), _joined([each[2] for each in targets], np.float32),
            ),
            _joined([w.nodes + o for w, o in zip(words, self._offsets, strict=False)], np.int32),
            _joined([w.words + f for w, f in zip(words, firsts, strict=False)], np.int32),
            _joined([w.counts for w in words], np.float32),
            self._rooms.local.piece.astype(np.int32),
        )  # fmt: skip


def _joined(parts: Sequence[Any], kind: type) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)
