"""A process that follows a service with a mirror until it is killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch import ServiceSettings, mirror, read_address
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.embedded.build import build_index

with TemporaryDirectory() as folder:  # loads the kernels and the client once, for all processes forked from here
    build_index([Passage("a", "", "warm")], folder, threads=1)
    Service(read_address("http://127.0.0.1:9/none"), ServiceSettings(client="opensearch")).close()


def follow(address: str, folder: str, told: Connection) -> None:
    """Tells of every page, and each time it has caught up."""
    mirror.PAGE = 20
    service = Service(read_address(address), ServiceSettings(timeout=120, client="opensearch"))
    followed = mirror.Mirror(service, Path(folder))
    while True:
        followed.catch_up(told.send)
        told.send("caught up")
