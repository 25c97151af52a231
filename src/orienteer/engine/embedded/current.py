"""Engines by name, each over the newest generation of its index, for servers that run while indexes change."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from orienteer.engine.embedded.build import delta_has_grown
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.segmented_index import SegmentedIndex
from orienteer.engine.embedded.store import MANIFEST
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError

POLL = 0.5  # seconds
QUIET = 30.0  # seconds without a commit after which a delta that has grown is merged
_NICENESS = 10

log = logging.getLogger("orienteer.engine")


class CurrentEngines(Mapping[str, Engine]):
    """`engines[name]` is the newest engine; who began with an older one keeps it, its files stay mapped.

    A thread looks at the manifests. An index that cannot be opened is logged, and the engine before it stays. Where
    nothing is committed for a while, `merge` is called with the folder of an index whose delta has grown: once for each
    generation, and only where this user may write there.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        poll: float = POLL,
        quiet: float = QUIET,
        merge: Callable[[Path], None] | None = None,
    ) -> None:
        self._engines = dict(engines)
        self._poll, self._quiet, self._merge = poll, quiet, merge or merge_in_background
        self._closed, self._lock = threading.Event(), threading.Lock()
        self._folders = {
            name: engine.folder
            for name, engine in engines.items()
            if isinstance(engine, EmbeddedEngine) and engine.folder is not None and (engine.folder / MANIFEST).exists()
        }
        self._seen = {name: _signature(folder) for name, folder in self._folders.items()}
        self._since = dict.fromkeys(self._folders, time.monotonic())
        self._looked_at = dict.fromkeys(self._folders, False)  # whether this generation's delta was
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
                    self._since[name], self._looked_at[name] = time.monotonic(), False
                    self._open_newer(name, folder)
                elif not self._looked_at[name] and time.monotonic() - self._since[name] > self._quiet:
                    self._looked_at[name] = True
                    self._merge_if_grown(name, folder)

    def _merge_if_grown(self, name: str, folder: Path) -> None:
        engine = self._engines[name]
        assert isinstance(engine, EmbeddedEngine)
        if isinstance(engine.index, SegmentedIndex) and delta_has_grown(engine.index) and os.access(folder, os.W_OK):
            log.info("the latest changes of the index %s are merged with it", name)
            self._merge(folder)

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


def merge_in_background(folder: Path) -> None:
    """`orienteer index --merge` in a process of its own that gives way to others; a later commit wins over it."""
    command = [sys.executable, "-m", "orienteer.cli", "index", "--out", str(folder), "--merge", "--threads", "1"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        log.warning("the index %s cannot be merged: %s", folder, error)
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    threading.Thread(target=process.wait, name="orienteer-merge", daemon=True).start()


def _signature(folder: Path) -> tuple[int, int, int] | None:
    """Differs after every commit: a manifest is a new file each time."""
    try:
        facts = (folder / MANIFEST).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
