"""All that the routes share: engines, reader, agents, sessions, limits; one desk an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from starlette.requests import Request

from orienteer.data.passage import Question
from orienteer.defaults import AGENT
from orienteer.engine.protocol import Engine, Hit
from orienteer.query import Query
from orienteer.reader.protocol import Reader
from orienteer.serve.agent_cache import Roster
from orienteer.serve.batching import Batcher, together_or_alone
from orienteer.serve.errors import LimitError, UnknownIndexError
from orienteer.serve.gallery import Gallery
from orienteer.serve.limits import Limits
from orienteer.serve.metrics import Metrics
from orienteer.serve.session_store import SavedSessions
from orienteer.serve.session_worker import Player
from orienteer.serve.sessions import Bench


@dataclass(frozen=True, slots=True)
class Searching:
    """One query of one client."""

    index: str
    query: Query
    k: int


class Desk:
    """Built once when the server starts; `close` ends its threads."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        reader: Reader,
        saved: Path,
        *,
        limits: Limits,
        agents: Sequence[str] = (),
        examples: Sequence[Question] = (),
        evaluation: Path | None = None,
    ) -> None:
        self.engines, self.limits, self.examples = engines, limits, examples
        self.metrics = Metrics()
        self.roster = Roster(engines, limits, agents)
        self.offers = self.roster.offered(next(iter(engines)))
        self.default_agent = agents[0] if agents else AGENT
        self.gallery = Gallery(evaluation) if evaluation is not None else None
        self.player = Player(engines, reader, limits.together, self.metrics.batch.labels("moves").observe)
        self.searches: Batcher[Searching, Sequence[Hit]] = Batcher(
            self._search, limits.together, "orienteer-searches", self.metrics.batch.labels("searches").observe
        )
        self.bench = Bench(self.player, SavedSessions(saved, limits.saved), limits)
        self.metrics.running.set_function(lambda: self.bench.running)
        self.metrics.in_memory.set_function(lambda: len(self.bench))

    def index(self, name: str) -> str:
        """The name of a served index; the first where none is given."""
        if not name:
            return next(iter(self.engines))
        if name not in self.engines:
            raise UnknownIndexError(f"no index {name!r} is served here; expected one of {', '.join(self.engines)}")
        return name

    def check_text(self, text: str) -> None:
        if len(text) > self.limits.question:
            raise LimitError(f"{len(text):,} characters; this server takes questions of {self.limits.question:,}")

    def check_k(self, k: int) -> None:
        if k > self.limits.k:
            raise LimitError(f"k = {k:,}; this server gives {self.limits.k:,} passages of a query at most")

    def deadline(self, wanted: float | None) -> float:
        return min(wanted or self.limits.deadline, self.limits.deadline)

    @property
    def ready(self) -> bool:
        return self.player.batcher.alive and self.searches.alive

    def close(self) -> None:
        self.player.batcher.close()
        self.searches.close()

    def _search(self, jobs: Sequence[Searching]) -> list[Sequence[Hit] | Exception]:
        """Queries with one index and one k in one call."""
        results: dict[int, Sequence[Hit] | Exception] = {}
        for key in dict.fromkeys((job.index, job.k) for job in jobs):
            index, k = key
            places = [i for i, job in enumerate(jobs) if (job.index, job.k) == key]
            queries = [jobs[i].query for i in places]
            engine = self.engines[index]
            found = together_or_alone(partial(_lists, engine, k), queries)
            results.update(zip(places, found, strict=True))
        return [results[i] for i in range(len(jobs))]


def _lists(engine: Engine, k: int, queries: Sequence[Query]) -> list[Sequence[Hit]]:
    return [list(hits) for hits in engine.search_many(queries, k)]


def desk_of(request: Request) -> Desk:
    return cast(Desk, request.app.state.desk)
