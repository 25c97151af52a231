"""A mirror: an embedded index of a service's passages that follows the service.

    DIR/passages.sqlite   the passages, and up to where each shard has been followed; every page is one transaction
    DIR/index/            the embedded index that was built of them
    DIR/mirror.json       the service, and which state of the passages `index/` was built of

Every write gives a passage a new sequence number of its shard, so new and changed passages are those above the last
number followed. Numbers are followed up to the shard's checkpoint only: below it no write is still on its way. A
deletion leaves no passage behind; but after the additions the mirror holds all that the service holds, so that equal
counts mean equal passages, and only unequal ones cost a walk over all ids. A mirror that was killed goes on at its last
page; `index/` changes by one rename.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine
from orienteer.engine.adapters.opensearch.index_info import read_index_info
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import ServiceSettings, read_address
from orienteer.engine.adapters.opensearch.statistics import read_passage, value_at
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.protocol import Hit
from orienteer.engine.request_counters import Counters
from orienteer.errors import MirrorError, UnknownPassageError
from orienteer.query import Query, Refinement

PAGE = 2000  # passages in one request
IDS = 10_000  # ids in one request
FORMAT = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS passages (id TEXT PRIMARY KEY, place INTEGER, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS shards (shard INTEGER PRIMARY KEY, followed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state (
    one INTEGER PRIMARY KEY CHECK (one = 1), changes INTEGER NOT NULL, uuid TEXT NOT NULL
);
"""
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """How a mirror stands to its service."""

    address: str
    passages: int
    behind: int  # writes of the service that the mirror has not followed
    built: bool  # whether `index/` holds all that was followed

    def __str__(self) -> str:
        state = f"{self.behind:,} writes behind" if self.behind else "up to date"
        return f"{self.passages:,} passages of {self.address}, {state}{'' if self.built else ', index not built yet'}"


class Mirror:
    """The mirror in a folder, made where there is none."""

    def __init__(self, service: Service, folder: Path):
        self._service, self._folder = service, folder
        self.info = read_index_info(service)
        if service.several:
            raise MirrorError(f"{service.address} stands for several indexes; mirror each of them")
        folder.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(folder / "passages.sqlite", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.executescript(_TABLES)
        row = self._database.execute("SELECT uuid FROM state").fetchone()
        if row is not None and row[0] != self.info.uuid:
            raise MirrorError(
                f"{folder} mirrors another index than {service.address} is now (it was deleted and made again, or the "
                "address is another); mirror it into another folder, or delete this one"
            )
        self._database.execute("INSERT OR IGNORE INTO state VALUES (1, 0, ?)", (self.info.uuid,))

    def close(self) -> None:
        self._database.close()

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM passages").fetchone()[0])

    def catch_up(self, progress: Progress = lambda done: None) -> MirrorStatus:
        """Follow the service up to now and build the index again where something changed."""
        targets = self._checkpoints()
        self._service.ask("POST", "/_refresh")  # what is below the checkpoints is found by searches from here on
        for shard, target in targets.items():
            for rows in self._written(shard, self._followed(shard), target):
                self._take(shard, rows)
                progress(len(self))
            self._database.execute("INSERT OR REPLACE INTO shards VALUES (?, ?)", (shard, target))
        if self._count() != len(self):
            self._forget_deleted()
        self._build()
        return self.status()

    def status(self) -> MirrorStatus:
        behind = sum(max(0, target - self._followed(shard)) for shard, target in self._checkpoints().items())
        return MirrorStatus(str(self._service.address), len(self), behind, self._built() == self._changes())

    def _checkpoints(self) -> dict[int, int]:
        """Of each shard, the sequence number up to which every write is done, on all copies."""
        answer = self._service.ask("GET", "/_stats", level="shards")
        [index] = answer["indices"].values()
        found: dict[int, int] = {}
        for shard, copies in index["shards"].items():
            primary = next((copy for copy in copies if copy["routing"]["primary"]), None)
            if primary is None:
                raise MirrorError(f"shard {shard} of {self._service.address} is away; try again when it is back")
            found[int(shard)] = int(primary["seq_no"]["global_checkpoint"])
        return found

    def _followed(self, shard: int) -> int:
        row = self._database.execute("SELECT followed FROM shards WHERE shard = ?", (shard,)).fetchone()
        return -1 if row is None else int(row[0])

    def _changes(self) -> int:
        return int(self._database.execute("SELECT changes FROM state").fetchone()[0])

    def _built(self) -> int:
        try:
            return int(json.loads((self._folder / "mirror.json").read_text("utf-8"))["built"])
        except (OSError, ValueError, KeyError):
            return -1

    def _written(self, shard: int, after: int, target: int) -> Iterator[list[Any]]:
        """The shard's passages with sequence numbers above `after`, up to `target`, in their order."""
        names = self._service.settings.names
        while after < target:
            body = {
                "size": PAGE, "sort": [{"_seq_no": "asc"}], "_source": [*names.stored, names.order],
                "query": {"range": {"_seq_no": {"gt": after, "lte": target}}}, "track_total_hits": False,
            }  # fmt: skip
            rows = self._service.search_shard(shard, body)
            if not rows:
                return
            yield rows
            after = int(rows[-1]["sort"][0])

    def _take(self, shard: int, rows: Sequence[Any]) -> None:
        names = self._service.settings.names
        taken = []
        for row in rows:
            passage, place = read_passage(names, str(row["_id"]), row["_source"]), value_at(row["_source"], names.order)
            taken.append((passage.id, place, passage.title, passage.text))
        followed = int(rows[-1]["sort"][0])
        with self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO passages VALUES (?, ?, ?, ?)", taken)
            self._database.execute("INSERT OR REPLACE INTO shards VALUES (?, ?)", (shard, followed))
            self._database.execute("UPDATE state SET changes = changes + 1")

    def _transaction(self) -> Any:
        self._database.execute("BEGIN IMMEDIATE")
        return self._database  # its context manager commits, or rolls back

    def _count(self) -> int:
        answer = self._service.search({"size": 0, "track_total_hits": True})
        return int(answer["hits"]["total"]["value"])

    def _forget_deleted(self) -> None:
        """Remove what the service no longer holds."""
        self._database.execute("CREATE TEMP TABLE IF NOT EXISTS held (id TEXT PRIMARY KEY)")
        self._database.execute("DELETE FROM held")
        for shard in self._checkpoints():
            for ids in self._ids(shard):
                with self._transaction():
                    self._database.executemany("INSERT OR IGNORE INTO held VALUES (?)", ((each,) for each in ids))
        with self._transaction():
            gone = self._database.execute("DELETE FROM passages WHERE id NOT IN (SELECT id FROM held)").rowcount
            if gone:
                self._database.execute("UPDATE state SET changes = changes + 1")

    def _ids(self, shard: int) -> Iterator[list[str]]:
        after = -1
        while True:
            body = {
                "size": IDS, "sort": [{"_seq_no": "asc"}], "_source": False, "track_total_hits": False,
                "query": {"range": {"_seq_no": {"gt": after}}},
            }  # fmt: skip
            rows = self._service.search_shard(shard, body)
            if not rows:
                return
            yield [str(row["_id"]) for row in rows]
            after = int(rows[-1]["sort"][0])

    def passages(self) -> Iterator[Passage]:
        """In the order of the collection where passages know it, else by id."""
        for row in self._database.execute("SELECT id, title, text FROM passages ORDER BY place IS NULL, place, id"):
            yield Passage(*row)

    def _build(self) -> None:
        changes = self._changes()
        if self._built() == changes:
            return
        build_index(self.passages(), self._folder / "index")
        row = {"format": FORMAT, "address": str(self._service.address), "built": changes}
        atomic_write(self._folder / "mirror.json", json.dumps(row) + "\n")


class MirroredEngine:
    """`Engine` that looks at refinements in a mirror and takes answers from the service.

    `search` and `search_many` are the service's; `refine`, `idf`, `analyze`, the texts that it has and their terms are
    the mirror's.
    """

    def __init__(self, engine: OpenSearchEngine, local: EmbeddedEngine):
        self._engine, self._local = engine, local

    @property
    def fingerprint(self) -> str:
        return self._engine.fingerprint

    @property
    def counters(self) -> Counters:
        """What was sent to the service."""
        return self._engine.counters

    def close(self) -> None:
        self._engine.close()

    def search(self, query: Query, k: int = 5) -> Sequence[Hit]:
        return self._engine.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int = 5) -> Sequence[Sequence[Hit]]:
        return self._engine.search_many(queries, k)

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> Sequence[Sequence[Hit]]:
        return self._local.refine(query, refinements, k)

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> Sequence[Sequence[Sequence[Hit]]]:
        return self._local.refine_many(queries, refinements, k)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The mirror's; the service is asked for those that the mirror does not have yet."""
        missing = [each for each in dict.fromkeys(ids) if not self._mirrored(each)]
        new = {passage.id: passage for passage in self._engine.passages(missing)} if missing else {}
        known = [each for each in ids if each not in new]
        local = dict(zip(known, self._local.passages(known), strict=True))
        return [new[each] if each in new else local[each] for each in ids]

    def _mirrored(self, passage_id: str) -> bool:
        try:
            self._local.number_of(passage_id)
        except UnknownPassageError:
            return False
        return True

    def idf(self, field: str, term: str) -> float:
        return self._local.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._local.analyze(text)

    @property
    def vocabulary_size(self) -> int:
        return self._local.vocabulary_size

    def term(self, number: int) -> str:
        return self._local.term(number)

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        return self._local.term_numbers(terms)

    def nearest_terms(self, word: str, count: int) -> list[str]:
        return self._local.nearest_terms(word, count)

    def passage_terms(self, passage_id: str) -> NDArray[np.int64]:
        """Of a passage that the mirror does not have yet, the terms that it knows."""
        if self._mirrored(passage_id):
            return self._local.passage_terms(passage_id)
        [passage] = self._engine.passages([passage_id])
        numbers = np.array(self._local.term_numbers(self._local.analyze(passage.contents)), np.int64)
        return numbers[numbers >= 0]

    def term_idf(self, number: int) -> float:
        return self._local.term_idf(number)

    def term_probability(self, number: int) -> float:
        return self._local.term_probability(number)


def open_mirror(folder: str | Path, settings: ServiceSettings | None = None) -> MirroredEngine:
    """The engine over a folder that `orienteer mirror` made; credentials come from the environment."""
    try:
        row = json.loads((Path(folder) / "mirror.json").read_text("utf-8"))
        address = read_address(row["address"])
    except (OSError, ValueError, KeyError) as error:
        raise MirrorError(f"{folder} holds no mirror; make one: orienteer mirror URL --out {folder}") from error
    service = Service(address, settings or ServiceSettings.from_environment())
    return MirroredEngine(OpenSearchEngine(service), open_index(Path(folder) / "index"))
