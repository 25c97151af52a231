"""Trajectories of played sessions as arrays, how they are stored, and their prioritised replay with value targets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import TrainingConfig
from orienteer.agents.muzero.grammar import STATE_SIZE, Int32s
from orienteer.agents.muzero.networks import Float32s
from orienteer.agents.muzero.planning import PlannedStep
from orienteer.agents.muzero.representation import EncodedObservation, TokenizedObservation
from orienteer.agents.muzero.tries import LOCAL, LocalTries, Trie
from orienteer.errors import OrienteerError
from orienteer.session import Term
from orienteer.session.observation import Source


@dataclass(frozen=True, slots=True)
class TrajectoryStep:
    """One refinement: the encoded observation, the available terms, the grammar actions taken, and the reward.

    The encoding (see `EncodedObservation`): summary, terms and slot_scores (in half precision), stop_score.
    sources       [terms] bit set of the sources in which each term occurs
    piece ... word, roots   the trie of the terms (see `Trie`, `LocalTries`)
    history       earlier grammar actions of the session
    states        [actions, STATE_SIZE] grammar state before each action
    actions, nodes, values   [actions]: what was taken, the trie node it leads to, the search's root value
    policy_actions, policy_shares   the search policies of all actions, concatenated; policy_ends [actions]: where
                  each one ends
    reward        of the refinement
    token_row     the encoder's input, kept only where the encoder is trained too
    """

    summary: Float32s
    terms: NDArray[np.float16]
    slot_scores: NDArray[np.float16]
    stop_score: float
    sources: NDArray[np.uint8]
    piece: NDArray[np.uint16]
    first_child: Int32s
    num_children: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    word: Int32s
    roots: Int32s
    history: Int32s
    states: Int32s
    actions: Int32s
    nodes: Int32s
    values: Float32s
    policy_actions: Int32s
    policy_shares: Float32s
    policy_ends: Int32s
    reward: float
    steps_left: int
    may_stop: bool
    token_row: TokenRow | None = None

    @property
    def tries(self) -> LocalTries:
        trie = Trie(self.piece, self.first_child, self.num_children, self.flags, self.word)
        return LocalTries(trie, self.roots.reshape(2, -1))

    @property
    def encoded(self) -> EncodedObservation:
        slot_scores = self.slot_scores.astype(np.float32)
        return EncodedObservation(self.summary, self.terms.astype(np.float32), slot_scores, self.stop_score)

    @property
    def term_sources(self) -> list[Term]:
        """The terms as far as a root state needs them: only their sources are kept."""
        return [Term("", 0.0, _sources(int(bits))) for bits in self.sources]

    def policy(self, number: int) -> tuple[Int32s, Float32s]:
        """The search policy before action `number`: grammar actions and their shares."""
        start = int(self.policy_ends[number - 1]) if number else 0
        end = int(self.policy_ends[number])
        return self.policy_actions[start:end], self.policy_shares[start:end]

    def with_new_search(self, planned: PlannedStep) -> TrajectoryStep:
        """With the policies and values of a newer search along the same actions."""
        if len(planned.actions) != len(self.actions):
            return self
        return replace(self, **_search_targets(planned))


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A tokenized observation (see `TokenizedObservation`) as the encoder's trainer needs it."""

    ids: Int32s
    types: NDArray[np.uint8]
    idf: NDArray[np.uint8]
    ps: NDArray[np.uint8]
    occurrences: NDArray[np.int16]
    term_features: Float32s
    state_features: Float32s


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A played session. `number` is unique in a run; `ended` and the scores are for the log.

    empty    refinements that returned no hits
    guided   whether it was played with guided exploration
    """

    number: int
    steps: tuple[TrajectoryStep, ...]
    ended: str
    first_score: float
    last_score: float
    empty: int = 0
    guided: bool = False

    @property
    def gain(self) -> float:
        return self.last_score - self.first_score


def make_step(
    tokenized: TokenizedObservation, encoded: EncodedObservation, tries: LocalTries, history: Sequence[int],
    planned: PlannedStep, reward: float, steps_left: int, may_stop: bool, keep_row: bool = False,
) -> TrajectoryStep:  # fmt: skip
    return TrajectoryStep(
        encoded.summary, encoded.terms.astype(np.float16), encoded.slot_scores.astype(np.float16),
        float(encoded.stop_score), np.array([_bits(term.sources) for term in tokenized.terms], np.uint8),
        *tries.trie, tries.roots.reshape(-1), np.array(history, np.int32),
        np.array(planned.states, np.int32).reshape(-1, STATE_SIZE), np.array(planned.actions, np.int32),
        np.array(planned.nodes, np.int32), reward=float(reward), steps_left=steps_left, may_stop=may_stop,
        token_row=_token_row(tokenized) if keep_row else None, **_search_targets(planned),
    )  # fmt: skip


def _search_targets(planned: PlannedStep) -> dict[str, Any]:
    sizes = [len(actions) for actions, _ in planned.policies]
    actions = np.concatenate([actions for actions, _ in planned.policies] or [np.zeros(0, np.int32)])
    shares = np.concatenate([shares for _, shares in planned.policies] or [np.zeros(0)])
    return {
        "values": np.array(planned.values, np.float32),
        "policy_actions": actions.astype(np.int32),
        "policy_shares": shares.astype(np.float32),
        "policy_ends": np.cumsum(sizes).astype(np.int32),
    }


def _token_row(tokenized: TokenizedObservation) -> TokenRow:
    row = tokenized.rendered
    return TokenRow(
        row.ids, row.types, tokenized.idf, tokenized.ps, row.occurrences, tokenized.term_features,
        tokenized.state_features,
    )  # fmt: skip


def _bits(sources: Iterable[Source]) -> int:
    return sum(1 << LOCAL.index(source) for source in sources)


def _sources(bits: int) -> frozenset[Source]:
    return frozenset(source for position, source in enumerate(LOCAL) if bits >> position & 1)


# Fields whose names in stored trajectories differ.
_STORED = {
    "summary": "whole", "slot_scores": "slots", "first_child": "first", "num_children": "degree", "flags": "told",
    "history": "past", "term_features": "of_terms", "state_features": "of_moment",
}  # fmt: skip
_SCALARS = ("stop_score", "reward", "steps_left", "may_stop")
# Stored name of every array -> field.
_ARRAYS = {
    _STORED.get(f.name, f.name): f.name for f in fields(TrajectoryStep) if f.name not in (*_SCALARS, "token_row")
}
_ROW_ARRAYS = {f"row.{_STORED.get(f.name, f.name)}": f.name for f in fields(TokenRow)}


def pack(trajectories: Sequence[Trajectory]) -> dict[str, NDArray[Any]]:
    """Trajectories as a few long arrays, for a file."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    counts = [(each.number, len(each.steps), each.empty, each.guided) for each in trajectories]
    packed: dict[str, NDArray[Any]] = {
        "episode": np.array(counts, np.int64).reshape(-1, 4),
        "scores": np.array([(each.first_score, each.last_score) for each in trajectories], np.float64).reshape(-1, 2),
        "ended": np.frombuffer("\n".join(each.ended for each in trajectories).encode(), np.uint8),
        "numbers": np.array([[getattr(step, name) for name in _SCALARS] for step in steps], np.float64).reshape(-1, 4),
        "rows": np.array([step.token_row is not None for step in steps], np.bool_),
    }
    rows = [step.token_row for step in steps if step.token_row is not None]
    columns: list[tuple[str, list[NDArray[Any]]]] = [
        *((stored, [getattr(step, name) for step in steps]) for stored, name in _ARRAYS.items()),
        *((stored, [getattr(row, name) for row in rows]) for stored, name in _ROW_ARRAYS.items()),
    ]
    for stored, values in columns:
        if values:
            packed[stored] = np.concatenate([value.reshape(-1) for value in values])
            packed[f"{stored}.shape"] = np.array([value.shape for value in values], np.int64).reshape(len(values), -1)
    return packed


def unpack(packed: Mapping[str, NDArray[Any]]) -> list[Trajectory]:
    """Inverse of `pack`."""
    rows = iter(_split(packed, _ROW_ARRAYS, int(packed["rows"].sum())))
    steps = []
    for arrays, (stop_score, reward, steps_left, may_stop), has_row in zip(
        _split(packed, _ARRAYS, len(packed["rows"])), packed["numbers"], packed["rows"], strict=True
    ):
        steps.append(
            TrajectoryStep(
                **arrays, stop_score=float(stop_score), reward=float(reward), steps_left=int(steps_left),
                may_stop=bool(may_stop), token_row=TokenRow(**next(rows)) if has_row else None,
            )
        )  # fmt: skip
    endings = packed["ended"].tobytes().decode().split("\n")
    trajectories, start = [], 0
    for (number, size, empty, guided), (first, last), ended in zip(
        packed["episode"].tolist(), packed["scores"].tolist(), endings, strict=False
    ):
        episode = tuple(steps[start : start + size])
        trajectories.append(Trajectory(number, episode, ended, first, last, empty, bool(guided)))
        start += size
    return trajectories


def _split(packed: Mapping[str, NDArray[Any]], names: Mapping[str, str], count: int) -> list[dict[str, NDArray[Any]]]:
    """The arrays of every step (or row), by field."""
    parts: list[dict[str, NDArray[Any]]] = [{} for _ in range(count)]
    for stored, name in names.items() if count else ():
        shapes = packed[f"{stored}.shape"]
        ends = np.cumsum(shapes.prod(1))
        for part, shape, end in zip(parts, shapes.tolist(), ends.tolist(), strict=True):
            size = int(np.prod(shape))
            part[name] = packed[stored][end - size : end].reshape(shape)
    return parts


_LEAST = 0.01  # the lowest priority


class ReplaySample(NamedTuple):
    """Sampled steps, each as (trajectory, step), and their importance weights [samples]."""

    positions: list[tuple[int, int]]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RuleSequence:
    """The grammar actions of a trajectory in one sequence, with rewards and value targets.

    step, rule    [actions] the step of an action, and its number within the step
    reward        [actions]
    target        [actions + 1] the discounted return, or an n-step return bootstrapped with the search's value
    starts        [steps + 1] the first action of each step
    """

    step: NDArray[np.int32]
    rule: NDArray[np.int32]
    reward: NDArray[np.float64]
    target: NDArray[np.float64]
    starts: NDArray[np.int64]


def rule_sequence(trajectory: Trajectory, training: TrainingConfig, discount: float) -> RuleSequence:
    sizes = [len(step.actions) for step in trajectory.steps]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    reward = np.zeros(int(starts[-1]))
    reward[starts[1:] - 1] = [step.reward for step in trajectory.steps]
    step = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    rule = np.concatenate([np.zeros(0, np.int64), *(np.arange(size) for size in sizes)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.float32), *(t.values for t in trajectory.steps)]).astype(np.float64)
    steps = training.td_steps if training.targets == "n-step" else len(reward)
    return RuleSequence(step, rule, reward, targets(reward, values, discount, steps), starts)


def targets(
    reward: NDArray[np.float64], values: NDArray[np.float64], discount: float, steps: int
) -> NDArray[np.float64]:
    """z_i = Σ_{k < n} γ^k r_{i+k} + γ^n v_{i+n} [actions + 1]; beyond the end everything is 0."""
    size = len(reward)
    returns = np.zeros(size + 1)
    for position in range(size):
        end = min(size, position + steps)
        powers = discount ** np.arange(end - position)
        returns[position] = powers @ reward[position:end] + (
            discount ** (end - position) * values[end] if end < size else 0.0
        )
    return returns


class ReplayBuffer:
    """The newest trajectories, at most `replay_size` steps of them."""

    def __init__(self, training: TrainingConfig, discount: float) -> None:
        self._training, self._discount = training, discount
        self.trajectories: deque[Trajectory] = deque()
        self._sequences: deque[RuleSequence] = deque()
        self._priorities: deque[NDArray[np.float64]] = deque()
        self._numbers: set[int] = set()

    def __len__(self) -> int:
        """The number of steps."""
        return sum(len(trajectory.steps) for trajectory in self.trajectories)

    def add(self, trajectories: Sequence[Trajectory], priorities: Sequence[NDArray[np.float64]] | None = None) -> int:
        """Adds trajectories and returns how many are new: one whose number was added before is skipped."""
        added = 0
        for position, trajectory in enumerate(trajectories):
            if trajectory.number in self._numbers or not trajectory.steps:
                continue
            sequence = rule_sequence(trajectory, self._training, self._discount)
            self.trajectories.append(trajectory)
            self._sequences.append(sequence)
            self._priorities.append(_priorities(trajectory, sequence) if priorities is None else priorities[position])
            self._numbers.add(trajectory.number)
            added += 1
        while len(self) > self._training.replay_size and len(self.trajectories) > 1:
            self.trajectories.popleft()
            self._sequences.popleft()
            self._priorities.popleft()
        return added

    def sample(self, count: int, chance: np.random.Generator) -> ReplaySample:
        """Samples steps with probability ∝ priority^`priority`, with the importance weights that correct for it."""
        if not self.trajectories:
            raise OrienteerError("nothing to learn from: no episode has a step; see that the questions find passages")
        flat = np.concatenate(list(self._priorities)) ** self._training.priority
        shares = flat / flat.sum()
        chosen = chance.choice(len(shares), size=count, p=shares)
        weights = (1 / (len(shares) * shares[chosen])) ** self._training.importance
        ends = np.cumsum([len(each) for each in self._priorities])
        owners = np.searchsorted(ends, chosen, side="right")
        starts = ends - [len(each) for each in self._priorities]
        positions = [(int(owner), int(step - starts[owner])) for owner, step in zip(owners, chosen, strict=True)]
        return ReplaySample(positions, (weights / weights.max()).astype(np.float32))

    def sequence(self, position: int) -> RuleSequence:
        return self._sequences[position]

    def update_priorities(self, positions: Sequence[tuple[int, int]], errors: NDArray[np.float64]) -> None:
        """New priorities: the absolute value errors."""
        for (owner, step), error in zip(positions, errors, strict=True):
            self._priorities[owner][step] = max(_LEAST, abs(float(error)))

    def replace_step(self, position: int, step: int, new_step: TrajectoryStep) -> None:
        """Replaces a step by one with newer search policies and values."""
        trajectory = self.trajectories[position]
        steps = (*trajectory.steps[:step], new_step, *trajectory.steps[step + 1 :])
        self.trajectories[position] = replace(trajectory, steps=steps)
        self._sequences[position] = rule_sequence(self.trajectories[position], self._training, self._discount)

    @property
    def counted(self) -> NDArray[np.int64]:
        """The numbers of all trajectories that were ever added."""
        return np.array(sorted(self._numbers), np.int64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything in the buffer, for a checkpoint."""
        priorities = np.concatenate(list(self._priorities)) if self._priorities else np.zeros(0)
        return {**pack(list(self.trajectories)), "priorities": priorities, "counted": self.counted}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        packed = {name: array for name, array in arrays.items() if name not in ("priorities", "counted")}
        trajectories = unpack(packed)
        ends = np.cumsum([len(trajectory.steps) for trajectory in trajectories])
        self.add(trajectories, [part.copy() for part in np.split(arrays["priorities"], ends[:-1])])
        self._numbers |= set(arrays["counted"].tolist())


def _priorities(trajectory: Trajectory, sequence: RuleSequence) -> NDArray[np.float64]:
    values = np.array([step.values[0] for step in trajectory.steps], np.float64)
    return np.maximum(_LEAST, np.abs(values - sequence.target[sequence.starts[:-1]]))
