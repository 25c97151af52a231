"""Rocchio sessions: from a question and its answers to the refinements that raise the score most (Algorithm 1)."""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.rocchio.config import RocchioConfig, RocchioError, Variant, variants_of
from orienteer.rocchio.sessions import (
    Header,
    RocchioSession,
    RocchioStep,
    State,
    read_sessions,
    write_compact,
)

if TYPE_CHECKING:
    from orienteer.rocchio.agent import RocchioAgent
    from orienteer.rocchio.batched_sessions import rocchio_sessions
    from orienteer.rocchio.generation import generate
    from orienteer.rocchio.replay import TrainingStep, training_steps

# What compiles kernels is imported when it is first used: other commands start at once.
_HOME = {
    "RocchioAgent": "agent", "TrainingStep": "replay", "generate": "generation", "rocchio_sessions": "batched_sessions",
    "training_steps": "replay",
}  # fmt: skip

__all__ = [
    "Header", "RocchioAgent", "RocchioConfig", "RocchioError", "RocchioSession", "RocchioStep", "State",
    "TrainingStep", "Variant", "generate", "read_sessions", "rocchio_sessions", "training_steps", "variants_of",
    "write_compact",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
