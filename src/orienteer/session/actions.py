"""What an agent can do at a step: refine the query, take the last refinement back, or stop."""

from __future__ import annotations

from dataclasses import dataclass

from orienteer.query import Refinement


@dataclass(frozen=True, slots=True)
class Stop:
    """The session ends; its best passages are the result."""

    def __str__(self) -> str:
        return "stop"


@dataclass(frozen=True, slots=True)
class Undo:
    """The query loses its last refinement; passages seen stay seen, and the step counts."""

    def __str__(self) -> str:
        return "undo"


STOP = Stop()
UNDO = Undo()

Action = Refinement | Stop | Undo
