"""The memory that learning draws from: turns of episodes, the surprising ones more often."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Training
from orienteer.agents.muzero.trajectory import Episode, Turn
from orienteer.errors import OrienteerError

_LEAST = 0.01  # priority of a turn that was foreseen


class Draw(NamedTuple):
    """Turns drawn: (episode's place, turn) each, and the weights that make up for drawing some more often."""

    places: list[tuple[int, int]]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Path:
    """An episode's rules end to end: what came after each, and what it was worth.

    turn, rule    [rules]: where each stands
    reward        [rules]
    target        [rules + 1]: the discounted rewards from there on, or n steps of them and then the search's value
    """

    turn: NDArray[np.int32]
    rule: NDArray[np.int32]
    reward: NDArray[np.float64]
    target: NDArray[np.float64]
    starts: NDArray[np.int64]


def path_of(episode: Episode, training: Training, discount: float) -> Path:
    sizes = [len(turn.actions) for turn in episode.turns]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    reward = np.zeros(int(starts[-1]))
    reward[starts[1:] - 1] = [turn.reward for turn in episode.turns]
    turn = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    rule = np.concatenate([np.zeros(0, np.int64), *(np.arange(size) for size in sizes)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.float32), *(t.values for t in episode.turns)]).astype(np.float64)
    steps = training.td_steps if training.targets == "n-step" else len(reward)
    return Path(turn, rule, reward, targets(reward, values, discount, steps), starts)


def targets(
    reward: NDArray[np.float64], values: NDArray[np.float64], discount: float, steps: int
) -> NDArray[np.float64]:
    """z_i = Σ_{k < n} γ^k r_{i+k} + γ^n v_{i+n}; past the end everything is 0. One more than there are rewards."""
    size = len(reward)
    found = np.zeros(size + 1)
    for place in range(size):
        end = min(size, place + steps)
        powers = discount ** np.arange(end - place)
        found[place] = powers @ reward[place:end] + (discount ** (end - place) * values[end] if end < size else 0.0)
    return found


class Replay:
    """The last episodes, at most so many turns of them; the oldest go first."""

    def __init__(self, training: Training, discount: float) -> None:
        self._training, self._discount = training, discount
        self.episodes: deque[Episode] = deque()
        self._paths: deque[Path] = deque()
        self._priorities: deque[NDArray[np.float64]] = deque()
        self._numbers: set[int] = set()

    def __len__(self) -> int:
        """Turns."""
        return sum(len(episode.turns) for episode in self.episodes)

    def add(self, episodes: Sequence[Episode], priorities: Sequence[NDArray[np.float64]] | None = None) -> int:
        """How many of them are new: one that was counted before is not counted again."""
        added = 0
        for place, episode in enumerate(episodes):
            if episode.number in self._numbers or not episode.turns:
                continue
            path = path_of(episode, self._training, self._discount)
            self.episodes.append(episode)
            self._paths.append(path)
            self._priorities.append(_priorities(episode, path) if priorities is None else priorities[place])
            self._numbers.add(episode.number)
            added += 1
        while len(self) > self._training.replay and len(self.episodes) > 1:
            self.episodes.popleft()
            self._paths.popleft()
            self._priorities.popleft()
        return added

    def draw(self, count: int, chance: np.random.Generator) -> Draw:
        """Turns by priority to the power of `priority`, each with the weight that corrects for it."""
        if not self.episodes:
            raise OrienteerError("nothing to learn from: no episode has a turn; see that the questions find passages")
        flat = np.concatenate(list(self._priorities)) ** self._training.priority
        shares = flat / flat.sum()
        chosen = chance.choice(len(shares), size=count, p=shares)
        weights = (1 / (len(shares) * shares[chosen])) ** self._training.importance
        ends = np.cumsum([len(each) for each in self._priorities])
        owners = np.searchsorted(ends, chosen, side="right")
        starts = ends - [len(each) for each in self._priorities]
        places = [(int(owner), int(turn - starts[owner])) for owner, turn in zip(owners, chosen, strict=True)]
        return Draw(places, (weights / weights.max()).astype(np.float32))

    def path(self, place: int) -> Path:
        return self._paths[place]

    def surprise(self, places: Sequence[tuple[int, int]], errors: NDArray[np.float64]) -> None:
        """New priorities: how far the value was off."""
        for (owner, turn), error in zip(places, errors, strict=True):
            self._priorities[owner][turn] = max(_LEAST, abs(float(error)))

    def rethought(self, place: int, turn: int, made: Turn) -> None:
        """A turn with newer policies and values."""
        episode = self.episodes[place]
        turns = (*episode.turns[:turn], made, *episode.turns[turn + 1 :])
        self.episodes[place] = replace(episode, turns=turns)
        self._paths[place] = path_of(self.episodes[place], self._training, self._discount)

    @property
    def counted(self) -> NDArray[np.int64]:
        """The numbers of all episodes that ever came, also of those that are gone."""
        return np.array(sorted(self._numbers), np.int64)

    def restore(self, episodes: Sequence[Episode], priorities: NDArray[np.float64], counted: NDArray[np.int64]) -> None:
        ends = np.cumsum([len(episode.turns) for episode in episodes])
        self.add(episodes, [part.copy() for part in np.split(priorities, ends[:-1])])
        self._numbers |= set(counted.tolist())

    @property
    def priorities(self) -> NDArray[np.float64]:
        return np.concatenate(list(self._priorities)) if self._priorities else np.zeros(0)


def _priorities(episode: Episode, path: Path) -> NDArray[np.float64]:
    values = np.array([turn.values[0] for turn in episode.turns], np.float64)
    return np.maximum(_LEAST, np.abs(values - path.target[path.starts[:-1]]))
