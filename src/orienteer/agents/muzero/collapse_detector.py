"""Whether a run still learns: a policy that has lost its doubts, or rewards that have gone, end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CollapseLimits:
    """When a run has collapsed.

    entropy    of the policy, a mean over all choices, in nats: below it
    reward     mean reward of episodes: this far below the best mean there was
    patience   chunks in a row
    settled    chunks after which a mean is taken for what it is: one of a few episodes is mostly luck
    """

    entropy: float = 0.02
    reward: float = 0.05
    patience: int = 10
    settled: int = 20


@dataclass(slots=True)
class CollapseDetector:
    """Running means over chunks, and how long they have been bad."""

    limits: CollapseLimits
    entropy: float | None = None
    reward: float | None = None
    best: float | None = None
    bad: int = 0
    seen: int = 0

    def see(self, entropy: float, reward: float) -> str | None:
        """Why the run is to be stopped; None while it may go on."""
        self.seen += 1
        share = 1 / min(self.seen, self.limits.settled)
        self.entropy, self.reward = _mean(self.entropy, entropy, share), _mean(self.reward, reward, share)
        if self.seen >= self.limits.settled:
            self.best = self.reward if self.best is None else max(self.best, self.reward)
        why = None
        if self.entropy < self.limits.entropy:
            why = f"the policy's entropy has fallen to {self.entropy:.4f}, below {self.limits.entropy:g}"
        elif self.best is not None and self.reward < self.best - self.limits.reward:
            why = f"the mean reward has fallen from {self.best:.3f} to {self.reward:.3f}"
        self.bad = self.bad + 1 if why else 0
        return why if why and self.bad >= self.limits.patience else None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "limits"}

    @classmethod
    def from_dict(cls, limits: CollapseLimits, row: Mapping[str, Any]) -> CollapseDetector:
        return cls(limits, **row)


def _mean(before: float | None, now: float, share: float) -> float:
    return now if before is None else (1 - share) * before + share * now
