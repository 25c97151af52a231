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
    from orienteer.engine.adapters.opensearch.pool import PooledEngine
    from orienteer.engine.embedded.engine import EmbeddedEngine
    from orienteer.engine.long_documents import SplitEngine
    from orienteer.engine.sharded.engine import ShardedEngine

    ServiceEngine = OpenSearchEngine | MirroredEngine | PooledEngine | SplitEngine

BETWEEN_SHARDS = ","
ON_RAY = "ray:"
MIRROR = "mirror:"
POOL = "pool:"


def open_engine(address: str | Path, *, threads: int | None = None) -> EmbeddedEngine | ShardedEngine | ServiceEngine:
    """`DIR`, `DIR,DIR,…` (shards of one collection, in their order) or `https://host:9200/index`.

    `mirror:DIR` asks a service and looks at refinements in its mirror (`orienteer mirror`);
    `pool:https://host:9200/index` looks at them among documents fetched for the question.
    `ray:DIR,DIR,…` puts each shard into an actor of the Ray cluster at RAY_ADDRESS, or of one started on this machine.
    """
    text = str(address)
    if is_address(text) or text.startswith((MIRROR, POOL)):
        return _open_service(text)
    if text.startswith(ON_RAY):
        return _open_on_ray([part for part in text.removeprefix(ON_RAY).split(BETWEEN_SHARDS) if part])
    from orienteer.engine.embedded.engine import open_index

    folders = [Path(part) for part in text.split(BETWEEN_SHARDS) if part]
    if len(folders) < 2 or Path(text).is_dir():  # a folder may have a comma in its name
        return open_index(address, threads=threads)
    from orienteer.engine.sharded.engine import open_shards

    return open_shards(folders)


def _open_service(text: str) -> ServiceEngine:
    """The engine over a service; its long documents cut where ORIENTEER_SEARCH_SPLIT says so."""
    from orienteer.engine.adapters.opensearch import ServiceSettings, connect

    settings = ServiceSettings.from_environment()
    engine: OpenSearchEngine | MirroredEngine | PooledEngine
    if text.startswith(MIRROR):
        from orienteer.engine.adapters.opensearch.mirror import open_mirror

        engine = open_mirror(text.removeprefix(MIRROR), settings)
    elif text.startswith(POOL):
        from orienteer.engine.adapters.opensearch.pool import connect_pooled

        engine = connect_pooled(text.removeprefix(POOL), settings)
    else:
        engine = connect(text, settings)
    if settings.split is None:
        return engine
    from orienteer.engine.long_documents import SplitEngine

    return SplitEngine(engine, settings.split)


def absolute(address: str | Path) -> Path:
    """The same index from any working folder: workers of a cluster have their own."""
    text = str(address)
    if is_address(text.removeprefix(POOL)):
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
