"""An engine by its address: a folder, several folders as shards, or an index of a search service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orienteer.engine.opensearch.settings import is_address

if TYPE_CHECKING:
    from orienteer.engine.embedded import EmbeddedEngine
    from orienteer.engine.opensearch import OpenSearchEngine
    from orienteer.engine.sharded import ShardedEngine

BETWEEN_SHARDS = ","


def open_engine(
    address: str | Path, *, threads: int | None = None
) -> EmbeddedEngine | ShardedEngine | OpenSearchEngine:
    """`DIR`, `DIR,DIR,…` (shards of one collection, in their order) or `https://host:9200/index`."""
    text = str(address)
    if is_address(text):
        from orienteer.engine.opensearch import connect

        return connect(text)
    from orienteer.engine.embedded import open_index

    folders = [Path(part) for part in text.split(BETWEEN_SHARDS) if part]
    if len(folders) < 2 or Path(text).is_dir():  # a folder may have a comma in its name
        return open_index(address, threads=threads)
    from orienteer.engine.sharded import open_shards

    return open_shards(folders)
