"""The embedded engine over an index on disk, whatever its segments."""

from __future__ import annotations

from pathlib import Path

from orienteer.engine.embedded.index import open_parts
from orienteer.engine.embedded.one_segment import EmbeddedEngine
from orienteer.engine.embedded.segmented_engine import SegmentedEngine
from orienteer.engine.embedded.segmented_index import open_segments

__all__ = ["EmbeddedEngine", "open_index"]


def open_index(path: Path | str, *, threads: int | None = None) -> EmbeddedEngine:
    """The engine over the index at `path`."""
    manifest, parts, deleted = open_parts(path)
    if len(parts) == 1:
        return EmbeddedEngine(parts[0], threads)
    return SegmentedEngine(open_segments(path, (manifest, parts, deleted)), threads)
