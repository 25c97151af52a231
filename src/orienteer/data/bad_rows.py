"""What is wrong with a row, and `BadRows` for a caller that would rather go on than stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from orienteer.errors import DataError


class Fault(DataError):
    """What was found and what was expected, before its place is known; a user sees it with file and line."""


Report = Callable[[int, Fault], None]
"""What a format calls with a bad row's number: it raises, or counts and returns."""

OnBad = Callable[[DataError], None]


@dataclass(slots=True)
class BadRows:
    """Counts bad rows and keeps the first few messages; pass it as `on_bad`."""

    keep: int = 5
    count: int = 0
    first: list[str] = field(default_factory=list)

    def __call__(self, error: DataError) -> None:
        self.count += 1
        if len(self.first) < self.keep:
            self.first.append(str(error))

    def __str__(self) -> str:
        if not self.count:
            return "no bad rows"
        lines = [f"{self.count:,} bad row{'s' if self.count > 1 else ''} skipped", *self.first]
        if self.count > len(self.first):
            lines.append(f"and {self.count - len(self.first):,} more")
        return "\n  ".join(lines)
