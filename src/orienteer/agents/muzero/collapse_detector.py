"""Detects a collapsed run: a policy without entropy, or a fall of the mean reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CollapseLimits:
    """When a run counts as collapsed.

    entropy    mean policy entropy, in nats, below this
    reward     mean reward of episodes this far below its best
    patience   for so many chunks in a row
    settled    chunks before a best mean reward is recorded, and the length of the running means
    """

    entropy: float = 0.02
    reward: float = 0.05
    patience: int = 10
    settled: int = 20


@dataclass(slots=True)
class CollapseDetector:
    """Running means over chunks, and for how many chunks they have been bad."""

    limits: CollapseLimits
    entropy: float | None = None
    reward: float | None = None
    best: float | None = None
    bad: int = 0
    seen: int = 0

    def update(self, entropy: float, reward: float) -> str | None:
        """The reason to stop the run; None while it may go on."""
        self.seen += 1
        share = 1 / min(self.seen, self.limits.settled)
        self.entropy, self.reward = _mean(self.entropy, entropy, share), _mean(self.reward, reward, share)
        if self.seen >= self.limits.settled:
            self.best = self.reward if self.best is None else max(self.best, self.reward)
        reason = None
        if self.entropy < self.limits.entropy:
            reason = f"the policy's entropy has fallen to {self.entropy:.4f}, below {self.limits.entropy:g}"
        elif self.best is not None and self.reward < self.best - self.limits.reward:
            reason = f"the mean reward has fallen from {self.best:.3f} to {self.reward:.3f}"
        self.bad = self.bad + 1 if reason else 0
        return reason if reason and self.bad >= self.limits.patience else None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "limits"}

    @classmethod
    def from_dict(cls, limits: CollapseLimits, row: Mapping[str, Any]) -> CollapseDetector:
        return cls(limits, **row)


def _mean(old: float | None, new: float, share: float) -> float:
    return new if old is None else (1 - share) * old + share * new
