"""Batches for the learner: unrolled steps as arrays, with the actions taken and the legal choices at every position.

An unrolling starts at an encoded observation, with the first action of a step. After the query of that step the model
has no more observations, as inside a plan: later rules take words from the index, and later pieces have no context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import NetworkConfig
from orienteer.agents.muzero.grammar import (
    ANY_PIECE,
    FIELD,
    MAY_STOP,
    NODE,
    OPERATOR,
    STACK,
    USES_INDEX,
    WORD_ENDS,
    Int32s,
    QueryGrammar,
    TrieTables,
    in_index,
    join_tries,
    legal_actions,
    max_legal_actions,
)  # fmt: skip
from orienteer.agents.muzero.replay import RuleSequence, Trajectory, TrajectoryStep
from orienteer.agents.muzero.root import SLOT_TABLE, lookahead_rewards, node_prior_logits, node_words
from orienteer.agents.muzero.tries import Trie

RULE, LOCAL_PIECE, INDEX_PIECE = range(3)  # kinds of actions


@dataclass(frozen=True, slots=True)
class UnrollStart:
    """Where to unroll from: a trajectory, its sequence, a step, the first action whose losses count, and a weight.

    `learn_value` is False where only the policy is learned: the rewards of another player are not the agent's own.
    """

    trajectory: Trajectory
    sequence: RuleSequence
    step: int
    first_loss: int = 0
    weight: float = 1.0
    learn_value: bool = True


@dataclass(frozen=True, slots=True)
class PolicyChoices:
    """All legal actions of all choices in a batch, concatenated: every array is [actions].

    position, row   the position in the unrolling, the row of the batch
    kind, id        a rule, a node of the batch's tries, or a wordpiece
    prior           its prior logit
    share           the policy target
    """

    position: Int32s
    row: Int32s
    kind: NDArray[np.int8]
    id: Int32s
    prior: NDArray[np.float32]
    share: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """B unrollings of at most P actions.

    steps                 the steps at which they start
    history, lengths      [B, history], [B]
    kinds, ids            [P, B] of the actions taken; -1 beyond the end
    reward, value         [P + 1, B] targets; `reward` is of the action that led to a position
    has_reward, has_value, has_policy   [P + 1, B] whether the loss there counts
    weight                [B]
    choices               all choices except those among all first pieces of the index:
    first_choices         [n, 2] position and row
    first_choice_targets  choice, index among the first pieces, share
    node_of, word_of      [pairs] which word lies below which node of the batch's tries
    word_counts, pieces   [nodes] the number of words below each node, and its piece
    """

    steps: tuple[TrajectoryStep, ...]
    history: Int32s
    lengths: Int32s
    kinds: NDArray[np.int8]
    ids: Int32s
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    has_reward: NDArray[np.float32]
    has_value: NDArray[np.float32]
    has_policy: NDArray[np.float32]
    weight: NDArray[np.float32]
    choices: PolicyChoices
    first_choices: Int32s
    first_choice_targets: tuple[Int32s, Int32s, NDArray[np.float32]]
    node_of: Int32s
    word_of: Int32s
    word_counts: NDArray[np.float32]
    pieces: Int32s


class _UnrollStep(NamedTuple):
    """An action of an unrolling: the value target before it, its reward, and whether the reward's loss counts.

    `step` is -1 beyond the end; `end` is the rule that ends a word, where that is not among the actions taken.
    """

    step: int
    rule: int
    value: float
    reward: float
    has_reward: bool
    end: int = -1


class BatchMaker:
    """Makes batches from starts."""

    def __init__(self, grammar: QueryGrammar, index: Trie, unroll: int, config: NetworkConfig, discount: float) -> None:
        self._grammar, self._index, self._unroll = grammar, index, unroll
        self._config, self._discount = config, discount

    @cached_property
    def _index_stacks(self) -> Int32s:
        """[stacks]: the same stack with the index as the source of every word."""
        number = {stack: position for position, stack in enumerate(self._grammar.stacks)}
        return np.array([number[tuple(map(in_index, stack))] for stack in self._grammar.stacks], np.int32)

    def __call__(self, starts: Sequence[UnrollStart]) -> Batch:
        steps = tuple(start.trajectory.steps[start.step] for start in starts)
        trie_tables, offsets = join_tries(
            [step.tries for step in steps], [step.may_stop for step in steps], self._index
        )
        positions = max(start.first_loss for start in starts) + self._unroll
        made = _BatchBuilder(self, starts, steps, trie_tables, offsets, positions)
        for row, start in enumerate(starts):
            made.add(row, start)
        return made.batch()


class _BatchBuilder:
    """A batch under construction."""

    def __init__(
        self,
        maker: BatchMaker,
        starts: Sequence[UnrollStart],
        steps: tuple[TrajectoryStep, ...],
        trie_tables: TrieTables,
        offsets: Int32s,
        positions: int,
    ) -> None:
        self._grammar, self._index, self._stacks = maker._grammar, maker._index, maker._index_stacks
        self._unroll, self._config, self._discount = maker._unroll, maker._config, maker._discount
        self._first_steps, self._trie_tables, self._offsets = steps, trie_tables, offsets
        size = len(starts)
        self._kinds, self._ids = np.full((positions, size), -1, np.int8), np.zeros((positions, size), np.int32)
        self._reward, self._value, self._has_reward, self._has_value, self._has_policy = (
            np.zeros((positions + 1, size), np.float32) for _ in range(5)
        )
        self._weight = np.array([start.weight for start in starts], np.float32)
        self._choice_parts: list[tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._first_choices: list[tuple[int, int]] = []
        self._first_choice_targets: list[tuple[int, Int32s, NDArray[np.float32]]] = []
        most = max_legal_actions(self._grammar, trie_tables)
        self._actions, self._nodes = np.empty(most, np.int32), np.empty(most, np.int32)
        longest = max((len(step.history) for step in steps), default=0)
        self._history = np.full((size, min(longest, maker._config.history)), -1, np.int32)
        self._lengths = np.zeros(size, np.int32)
        for row, step in enumerate(steps):
            history = step.history[-maker._config.history :]
            self._history[row, : len(history)] = history
            self._lengths[row] = len(history)

    def add(self, row: int, start: UnrollStart) -> None:
        steps = start.trajectory.steps
        prior_logits = None
        if self._config.policy_prior:
            step = steps[start.step]
            prior_logits = node_prior_logits(step.slot_scores.astype(np.float32), step.term_sources, step.tries)
        reward, has_reward = 0.0, False
        for position, unrolled in enumerate(islice(self._steps(start), start.first_loss + self._unroll + 1)):
            counts = position >= start.first_loss
            self._has_value[position, row] = counts and start.learn_value
            self._value[position, row] = unrolled.value
            if position > 0:
                self._reward[position, row] = reward
                self._has_reward[position, row] = (
                    counts and start.learn_value and position > start.first_loss and has_reward
                )
            if unrolled.step < 0:
                break
            observed = unrolled.step == start.step
            reward, has_reward = unrolled.reward, unrolled.has_reward
            if counts and self._add_choice(position, row, steps[unrolled.step], unrolled, observed, prior_logits):
                self._has_policy[position, row] = 1
            if position < len(self._kinds):
                self._kinds[position, row], self._ids[position, row] = self._taken(
                    row, steps[unrolled.step], unrolled, observed
                )

    def _steps(self, start: UnrollStart) -> Iterator[_UnrollStep]:
        """The actions from a start on as the model takes them, and a last one with step -1."""
        sequence, steps = start.sequence, start.trajectory.steps
        for at in range(int(sequence.starts[start.step]), int(sequence.starts[-1])):
            number, rule = int(sequence.step[at]), int(sequence.rule[at])
            step, observed, reward = steps[number], number == start.step, float(sequence.reward[at])
            last = rule == len(step.actions) - 1
            completes_word = last and int(step.actions[rule]) != self._grammar.stop
            if completes_word and observed and self._config.reward_at == "words" and self._config.lookahead_scale:
                reward -= self._predicted_reward(step)
            has_reward = completes_word or self._config.reward_at == "rules"
            end = -1 if observed or not completes_word else self._end(step, rule)
            if end < 0:
                yield _UnrollStep(number, rule, float(sequence.target[at]), reward, has_reward)
                continue
            yield _UnrollStep(number, rule, float(sequence.target[at]), 0.0, self._config.reward_at == "rules")
            value = float(sequence.reward[at] + self._discount * sequence.target[at + 1])
            yield _UnrollStep(number, rule, value, reward, has_reward, end)
        yield _UnrollStep(-1, 0, float(sequence.target[int(sequence.starts[-1])]), 0.0, False)

    def _end(self, step: TrajectoryStep, rule: int) -> int:
        """The rule that ends a word where only the index has longer words; -1 where none is needed."""
        state = step.states[rule].copy()
        piece = int(step.actions[rule]) - len(self._grammar)
        if piece < 0 or not self._as_index(state, step, rule):
            return -1
        tables = self._grammar.tables
        node, after = self._index.child(int(state[NODE]), piece), int(tables.after_piece[state[STACK]])
        goes_on = node >= 0 and self._index.num_children[node] > 0
        return int(tables.ends[after]) if goes_on and after >= 0 else -1

    def _predicted_reward(self, step: TrajectoryStep) -> float:
        """The lookahead's predicted reward of a step's refinement; f learns the difference."""
        state, node = step.states[-1], int(step.nodes[-1])
        node = node if node >= 0 else int(state[NODE])
        slot = SLOT_TABLE[state[OPERATOR], state[FIELD]]
        return float(lookahead_rewards(step.slot_scores[step.word[node], slot], self._config))

    def _taken(self, row: int, step: TrajectoryStep, unrolled: _UnrollStep, observed: bool) -> tuple[int, int]:
        action = int(step.actions[unrolled.rule]) if unrolled.end < 0 else unrolled.end
        rules = len(self._grammar)
        if action < rules:
            return RULE, action if observed else int(self._grammar.as_index[action])
        if observed:
            return LOCAL_PIECE, int(step.nodes[unrolled.rule]) + int(self._offsets[row])
        return INDEX_PIECE, action - rules

    def _add_choice(
        self,
        position: int,
        row: int,
        step: TrajectoryStep,
        unrolled: _UnrollStep,
        observed: bool,
        prior_logits: NDArray[np.float32] | None,
    ) -> bool:
        """Adds the legal actions of a choice; False where the policy target includes none of them."""
        rule = unrolled.rule
        state = step.states[rule].copy()
        if observed and state[NODE] >= 0:
            state[NODE] += self._offsets[row]
        if not observed and not self._as_index(state, step, rule):
            return False
        if (
            unrolled.end < 0
            and not observed
            and state[NODE] == 0
            and self._grammar.tables.takes[state[STACK]] == ANY_PIECE
        ):
            return self._add_first_choice(position, row, step, rule)
        if unrolled.end >= 0:
            piece = int(step.actions[rule]) - len(self._grammar)
            state[NODE] = self._index.child(int(state[NODE]), piece)
            state[STACK] = self._grammar.tables.after_piece[state[STACK]]
        count = legal_actions(state, row, self._grammar.tables, self._trie_tables, self._actions, self._nodes)
        actions, nodes = self._actions[:count].copy(), self._nodes[:count].copy()
        wanted, shares = (
            step.policy(rule) if unrolled.end < 0 else (np.array([unrolled.end], np.int32), np.ones(1, np.float32))
        )
        if not observed:
            rules = wanted < len(self._grammar)
            wanted = np.where(rules, self._grammar.as_index[np.where(rules, wanted, 0)], wanted)
        positions = np.searchsorted(actions, wanted)
        good = (
            (positions < count) & (actions[np.minimum(positions, count - 1)] == wanted)
            if count
            else np.zeros(0, np.bool_)
        )
        if count < 2 or not good.any():
            return False
        total = float(shares[good].sum())
        if total <= 0:
            return False
        share = np.zeros(count, np.float32)
        np.add.at(share, positions[good], (shares[good] / total).astype(np.float32))
        kind = np.where(actions < len(self._grammar), RULE, LOCAL_PIECE if observed else INDEX_PIECE).astype(np.int8)
        ids = np.where(kind == RULE, actions, nodes if observed else actions - len(self._grammar)).astype(np.int32)
        priors = np.zeros(count, np.float32)
        if observed and prior_logits is not None:
            priors = self._priors(step, rule, row, actions, nodes, prior_logits)
        self._choice_parts.append((position, row, kind, ids, priors, share))
        return True

    def _add_first_choice(self, position: int, row: int, step: TrajectoryStep, rule: int) -> bool:
        """Adds a choice among all first pieces of the index, which are not listed one by one."""
        wanted, shares = step.policy(rule)
        first = self._index.piece[1 : 1 + int(self._index.num_children[0])]
        pieces = wanted - len(self._grammar)
        positions = np.minimum(np.searchsorted(first, pieces), len(first) - 1)
        good = first[positions] == pieces
        total = float(shares[good].sum())
        if total <= 0:
            return False
        self._first_choice_targets.append(
            (len(self._first_choices), positions[good], (shares[good] / total).astype(np.float32))
        )
        self._first_choices.append((position, row))
        return True

    def _as_index(self, state: Int32s, step: TrajectoryStep, rule: int) -> bool:
        """Changes a state into that of a plan after its first word; False where the index lacks the word."""
        state[STACK], state[USES_INDEX] = self._stacks[state[STACK]], 1
        if state[NODE] < 0:
            return True
        node = 0
        for action in step.actions[:rule]:
            if action >= len(self._grammar):
                node = self._index.child(node, int(action) - len(self._grammar))
                if node < 0:
                    return False
        state[NODE] = node
        return True

    def _priors(
        self,
        step: TrajectoryStep,
        rule: int,
        row: int,
        actions: Int32s,
        nodes: Int32s,
        prior_logits: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """The prior logit of each action, as `learned_model.prior_logits`."""
        tables, state = self._grammar.tables, step.states[rule]
        priors = np.zeros(len(actions), np.float32)
        slot = SLOT_TABLE[state[OPERATOR], state[FIELD]] if state[OPERATOR] >= 0 and state[FIELD] >= 0 else -1
        for position, (action, node) in enumerate(zip(actions.tolist(), nodes.tolist(), strict=True)):
            if action >= len(self._grammar):
                priors[position] = prior_logits[0, node - self._offsets[row], slot]
            elif tables.needs[action] == MAY_STOP:
                priors[position] = step.stop_score
            elif tables.needs[action] == WORD_ENDS:
                priors[position] = prior_logits[1, state[NODE], slot]
            elif min(tables.operator[action], tables.field[action], tables.source[action]) >= 0:
                operator = tables.operator[action]
                root = step.tries.roots[tables.polarity[operator], tables.source[action]]
                priors[position] = prior_logits[0, root, SLOT_TABLE[operator, tables.field[action]]]
        return priors

    def batch(self) -> Batch:
        parts = self._choice_parts
        sizes = [len(part[2]) for part in parts]
        positions = np.repeat(np.array([part[0] for part in parts], np.int32), sizes)
        rows = np.repeat(np.array([part[1] for part in parts], np.int32), sizes)
        choices = PolicyChoices(
            positions, rows,
            *(_joined([part[column] for part in parts], kind) for column, kind in (
                (2, np.int8), (3, np.int32), (4, np.float32), (5, np.float32),
            )),
        )  # fmt: skip
        words = [node_words(step.tries.trie) for step in self._first_steps]
        firsts = np.concatenate([[0], np.cumsum([len(step.terms) for step in self._first_steps])])
        targets = self._first_choice_targets
        sizes = [len(each[1]) for each in targets]
        return Batch(
            self._first_steps, self._history, self._lengths, self._kinds, self._ids, self._reward, self._value,
            self._has_reward, self._has_value, self._has_policy, self._weight, choices,
            np.array(self._first_choices, np.int32).reshape(-1, 2),
            (
                np.repeat(np.array([each[0] for each in targets], np.int32), sizes),
                _joined([each[1] for each in targets], np.int32), _joined([each[2] for each in targets], np.float32),
            ),
            _joined([w.nodes + o for w, o in zip(words, self._offsets, strict=False)], np.int32),
            _joined([w.words + f for w, f in zip(words, firsts, strict=False)], np.int32),
            _joined([w.counts for w in words], np.float32),
            self._trie_tables.local.piece.astype(np.int32),
        )  # fmt: skip


def _joined(parts: Sequence[Any], kind: type) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)
