"""Agents that refine nothing: plain BM25, and BM25 ordered by the passage scorer."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.session import STOP, Observation, Stop


class NoRefinement:
    """Stops at once: the session's result is what the question itself finds."""

    def act(self, observations: Sequence[Observation]) -> list[Stop]:
        return [STOP for _ in observations]
