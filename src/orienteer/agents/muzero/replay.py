"""Prioritised replay: steps of trajectories, those with a large value error more often; and their value targets."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import TrainingConfig
from orienteer.agents.muzero.trajectory import Trajectory, TrajectoryStep
from orienteer.errors import OrienteerError

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
    found = np.zeros(size + 1)
    for position in range(size):
        end = min(size, position + steps)
        powers = discount ** np.arange(end - position)
        found[position] = powers @ reward[position:end] + (
            discount ** (end - position) * values[end] if end < size else 0.0
        )
    return found


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

    def restore(
        self, trajectories: Sequence[Trajectory], priorities: NDArray[np.float64], counted: NDArray[np.int64]
    ) -> None:
        ends = np.cumsum([len(trajectory.steps) for trajectory in trajectories])
        self.add(trajectories, [part.copy() for part in np.split(priorities, ends[:-1])])
        self._numbers |= set(counted.tolist())

    @property
    def priorities(self) -> NDArray[np.float64]:
        return np.concatenate(list(self._priorities)) if self._priorities else np.zeros(0)


def _priorities(trajectory: Trajectory, sequence: RuleSequence) -> NDArray[np.float64]:
    values = np.array([step.values[0] for step in trajectory.steps], np.float64)
    return np.maximum(_LEAST, np.abs(values - sequence.target[sequence.starts[:-1]]))
