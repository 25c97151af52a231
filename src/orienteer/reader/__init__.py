"""The reader: how good a passage is for a question (PS), and which of its words answer it (MR)."""

from orienteer.reader.answers import exact_match, f1, holds_answer, normalise
from orienteer.reader.cache import CachedReader, ReadingFile
from orienteer.reader.protocol import Reader, Reading
from orienteer.reader.runtime import TrainedReader
from orienteer.reader.snippets import snippet

__all__ = [
    "CachedReader", "Reader", "Reading", "ReadingFile", "TrainedReader",
    "exact_match", "f1", "holds_answer", "normalise", "snippet",
]  # fmt: skip
