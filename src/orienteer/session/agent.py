"""The `Agent` protocol: from observations to actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from orienteer.session.actions import Action
from orienteer.session.observation import Observation


@runtime_checkable
class Agent(Protocol):
    """An action depends on its observation alone, never on what else is in the batch or came before.

    Draw from `observation.seed` where chance is wanted. While `observation.may_stop` is false, stop only
    where there is no term left to refine with.
    """

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        """One action an observation, in their order."""
        ...
