"""How far an evaluation is, and how long it will take: from what the work done so far has cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orienteer.agents import ConfiguredAgent


@dataclass(frozen=True, slots=True)
class Progress:
    """Sessions of all agents together; `seconds_left` is None until something was timed."""

    agent: str
    done: int
    total: int
    seconds_left: float | None


OnProgress = Callable[[Progress], None]


class Clock:
    """Measures work in lists of five passages read, the unit in which agents differ most."""

    def __init__(self, entries: Sequence[ConfiguredAgent], questions: int, told: OnProgress | None) -> None:
        self._units = {e.name: e.settings.steps + e.settings.hits / 5 for e in entries}
        self._done = dict.fromkeys(self._units, 0)
        self._questions, self._told = questions, told
        self._seconds = self._timed = 0.0

    def tell(self, agent: str, done: int, seconds: float) -> None:
        """So many of the agent's questions are played; `seconds` is what those since the last time took."""
        if seconds > 0:
            self._seconds += seconds
            self._timed += (done - self._done[agent]) * self._units[agent]
        self._done[agent] = done
        if self._told is not None:
            self._told(self._progress(agent))

    def _progress(self, agent: str) -> Progress:
        left = sum((self._questions - self._done[name]) * units for name, units in self._units.items())
        rate = self._seconds / self._timed if self._timed else None
        total = self._questions * len(self._units)
        return Progress(agent, sum(self._done.values()), total, None if rate is None else left * rate)
