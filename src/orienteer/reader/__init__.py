"""The reader: how good a passage is for a question (PS), and which of its words answer it (MR)."""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.reader.answer_matching import exact_match, f1, holds_answer, normalise
from orienteer.reader.protocol import Reader, Reading

if TYPE_CHECKING:
    from orienteer.reader.cache import CachedReader, ReadingFile
    from orienteer.reader.decoding import snippet
    from orienteer.reader.runtime import TrainedReader

# The runtime is imported when it is first used: other commands start at once.
_HOME = {"CachedReader": "cache", "ReadingFile": "cache", "TrainedReader": "runtime", "snippet": "decoding"}

__all__ = [
    "CachedReader", "Reader", "Reading", "ReadingFile", "TrainedReader",
    "exact_match", "f1", "holds_answer", "normalise", "snippet",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
