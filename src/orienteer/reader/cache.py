"""Readings remembered: in memory, and on disk where several processes may share them.

An agent meets most passages more than once; a remembered reading costs a thousandth of a fresh one.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from orienteer.data.passage import Passage
from orienteer.errors import OrienteerError
from orienteer.reader.protocol import Reader, Reading

# A reading without its answer, which the passage gives back: score, logit, start, end, span.
_Stored = tuple[float, float, int, int, float]
_ROW = struct.Struct("<ddIId")  # a row of another size is of an older version: read again and replaced
_QUESTIONS_AT_ONCE = 64
_KEYS_AT_ONCE = 500  # SQLite takes at most 999 values in one statement in its older builds


class CacheError(OrienteerError):
    """A cache file that cannot be used."""


class ReadingFile:
    """Readings in one SQLite file, bounded by rows; the oldest go first. Safe for threads and processes."""

    def __init__(self, path: str | Path, rows: int = 5_000_000) -> None:
        self._path, self._rows = Path(path), rows
        self._lock = threading.Lock()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self._path, timeout=60, isolation_level=None, check_same_thread=False)
            # Readers never wait for the one writer; losing the last second at a power cut loses no more than time.
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS readings "
                "(place INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, reading BLOB NOT NULL)"
            )
        except (sqlite3.Error, OSError) as error:
            raise CacheError(
                f"{self._path}: not a cache of readings ({error}); delete the file or give another path"
            ) from None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, _Stored]:
        found: dict[bytes, _Stored] = {}
        with self._lock:
            for at in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[at : at + _KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = self._db.execute(f"SELECT key, reading FROM readings WHERE key IN ({marks})", some)
                found.update((key, _ROW.unpack(reading)) for key, reading in rows if len(reading) == _ROW.size)
        return found

    def put(self, readings: Mapping[bytes, _Stored]) -> None:
        rows = [(key, _ROW.pack(*reading)) for key, reading in readings.items()]
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR REPLACE INTO readings (key, reading) VALUES (?, ?)", rows)
                # Places only grow: the rows below the newest one minus the bound are too many, whoever wrote them.
                self._db.execute(
                    "DELETE FROM readings WHERE place <= (SELECT max(place) FROM readings) - ?", (self._rows,)
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM readings").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._db.close()


class CachedReader:
    """A reader that reads each passage once for each question; keys hold question, title, text and model."""

    def __init__(self, reader: Reader, memory: int = 200_000, disk: ReadingFile | str | Path | None = None) -> None:
        self._reader, self._size = reader, memory
        self._disk = ReadingFile(disk) if isinstance(disk, str | Path) else disk
        self._memory: OrderedDict[bytes, bytes] = OrderedDict()  # rows: half the size of tuples
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    @property
    def fingerprint(self) -> str:
        return self._reader.fingerprint

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        keys = [[self._key(question, passage) for passage in passages] for question, passages in batch]
        known = self._recall([key for row in keys for key in row])
        fresh: list[tuple[str, list[Passage]]] = []
        asked: list[list[bytes]] = []
        waiting: set[bytes] = set()
        for (question, passages), row in zip(batch, keys, strict=True):
            new = {k: p for k, p in zip(row, passages, strict=True) if k not in known and k not in waiting}
            if new:
                fresh.append((question, list(new.values())))
                asked.append(list(new))
                waiting.update(new)
        # Not all at once: what is read is kept, should the rest be interrupted.
        for at in range(0, len(fresh), _QUESTIONS_AT_ONCE):
            some = slice(at, at + _QUESTIONS_AT_ONCE)
            found = {
                key: (reading.score, reading.logit, reading.start, reading.end, reading.span)
                for row, readings in zip(asked[some], self._reader.read_many(fresh[some]), strict=True)
                for key, reading in zip(row, readings, strict=True)
            }
            self._remember(found)
            if self._disk is not None:
                self._disk.put(found)
            known |= found
        with self._lock:
            self.misses += len(waiting)
            self.hits += sum(map(len, keys)) - len(waiting)
        return [
            [_reading(known[key], passage) for key, passage in zip(row, passages, strict=True)]
            for row, (_, passages) in zip(keys, batch, strict=True)
        ]

    def _key(self, question: str, passage: Passage) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.fingerprint, question, passage.title, passage.text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.digest()

    def _recall(self, keys: Iterable[bytes]) -> dict[bytes, _Stored]:
        known: dict[bytes, _Stored] = {}
        missing: list[bytes] = []
        with self._lock:
            for key in dict.fromkeys(keys):
                if key in self._memory:
                    self._memory.move_to_end(key)
                    known[key] = _ROW.unpack(self._memory[key])
                else:
                    missing.append(key)
        if missing and self._disk is not None:
            found = self._disk.get(missing)
            self._remember(found)
            known |= found
        return known

    def _remember(self, readings: Mapping[bytes, _Stored]) -> None:
        with self._lock:
            self._memory.update((key, _ROW.pack(*reading)) for key, reading in readings.items())
            while len(self._memory) > self._size:
                self._memory.popitem(last=False)


def _reading(stored: _Stored, passage: Passage) -> Reading:
    score, logit, start, end, span = stored
    return Reading(score, logit, passage.text[start:end], start, end, span)
