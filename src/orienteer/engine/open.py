"""An engine by its address: a folder, several folders as shards, shards on a cluster, an index of a search service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orienteer.engine.adapters.opensearch.settings import is_address
from orienteer.errors import OrienteerError

if TYPE_CHECKING:
    from orienteer.engine.adapters.opensearch import OpenSearchEngine
    from orienteer.engine.adapters.opensearch.mirror import MirroredEngine
    from orienteer.engine.embedded.engine import EmbeddedEngine
    from orienteer.engine.sharded.engine import ShardedEngine

BETWEEN_SHARDS = ","
ON_RAY = "ray:"
MIRROR = "mirror:"


def open_engine(
    address: str | Path, *, threads: int | None = None
) -> EmbeddedEngine | ShardedEngine | OpenSearchEngine | MirroredEngine:
    """`DIR`, `DIR,DIR,…` (shards of one collection, in their order) or `https://host:9200/index`.

    `mirror:DIR` asks a service and looks at refinements in its mirror (`orienteer mirror`).
    `ray:DIR,DIR,…` puts each shard into an actor of the Ray cluster at RAY_ADDRESS, or of one started on this machine.
    """
    text = str(address)
    if is_address(text):
        from orienteer.engine.adapters.opensearch import connect

        return connect(text)
    if text.startswith(MIRROR):
        from orienteer.engine.adapters.opensearch.mirror import open_mirror

        return open_mirror(text.removeprefix(MIRROR))
    if text.startswith(ON_RAY):
        return _open_on_ray([part for part in text.removeprefix(ON_RAY).split(BETWEEN_SHARDS) if part])
    from orienteer.engine.embedded.engine import open_index

    folders = [Path(part) for part in text.split(BETWEEN_SHARDS) if part]
    if len(folders) < 2 or Path(text).is_dir():  # a folder may have a comma in its name
        return open_index(address, threads=threads)
    from orienteer.engine.sharded.engine import open_shards

    return open_shards(folders)


def absolute(address: str | Path) -> Path:
    """The same index from any working folder: workers of a cluster have their own."""
    text = str(address)
    if is_address(text):
        return Path(text)
    place = next((each for each in (ON_RAY, MIRROR) if text.startswith(each)), "")
    parts = [text] if Path(text).is_dir() else text.removeprefix(place).split(BETWEEN_SHARDS)
    return Path(place + BETWEEN_SHARDS.join(str(Path(part).resolve()) for part in parts if part))


def _open_on_ray(folders: list[str]) -> ShardedEngine:
    from orienteer.engine.sharded.engine import ShardedEngine
    from orienteer.engine.sharded.ray_transport import RayTransport
    from orienteer.workers import connect_ray

    if not folders:
        raise OrienteerError(f"no shard after {ON_RAY!r}; write {ON_RAY}DIR,DIR")
    ray = connect_ray(os.environ.get("RAY_ADDRESS") or "local")
    engine = ShardedEngine(RayTransport([Path(folder).resolve() for folder in folders], ray))
    engine.check_ids()
    return engine
