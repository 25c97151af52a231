"""Engines by name, each over the newest generation of its index, for servers that run while indexes change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.store import MANIFEST
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError

POLL = 0.5  # seconds

log = logging.getLogger("orienteer.engine")


class CurrentEngines(Mapping[str, Engine]):
    """`engines[name]` is the newest engine; who began with an older one keeps it, its files stay mapped.

    A thread looks at the manifests. An index that cannot be opened is logged, and the engine before it stays.
    """

    def __init__(self, engines: Mapping[str, Engine], poll: float = POLL) -> None:
        self._engines = dict(engines)
        self._poll, self._closed, self._lock = poll, threading.Event(), threading.Lock()
        self._folders = {
            name: engine.folder
            for name, engine in engines.items()
            if isinstance(engine, EmbeddedEngine) and engine.folder is not None and (engine.folder / MANIFEST).exists()
        }
        self._seen = {name: _signature(folder) for name, folder in self._folders.items()}
        for name, folder in self._folders.items():
            self._open_newer(name, folder)  # what was committed between opening and now
        if self._folders:
            threading.Thread(target=self._follow, name="orienteer-generations", daemon=True).start()

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    def add(self, name: str, engine: Engine) -> None:
        """One more engine, or another in the place of one; a new one's index is not followed."""
        with self._lock:
            self._engines = {**self._engines, name: engine}

    def remove(self, name: str) -> None:
        """Who searches with it keeps it."""
        with self._lock:
            self._engines = {known: engine for known, engine in self._engines.items() if known != name}

    def close(self) -> None:
        """Follows no longer."""
        self._closed.set()

    def _follow(self) -> None:
        while not self._closed.wait(self._poll):
            for name, folder in self._folders.items():
                if (now := _signature(folder)) is not None and now != self._seen[name]:
                    self._seen[name] = now
                    self._open_newer(name, folder)

    def _open_newer(self, name: str, folder: Path) -> None:
        old = self._engines[name]
        assert isinstance(old, EmbeddedEngine)
        try:
            new = open_index(folder, threads=old.threads)
        except OrienteerError as error:
            log.warning("the index %s has changed and cannot be opened: %s", name, error)
            return
        if new.index.manifest.generation != old.index.manifest.generation or new.fingerprint != old.fingerprint:
            self.add(name, new)
            log.info("the index %s is now generation %d", name, new.index.manifest.generation)


def _signature(folder: Path) -> tuple[int, int, int] | None:
    """Differs after every commit: a manifest is a new file each time."""
    try:
        facts = (folder / MANIFEST).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
