"""What all routes share: engines, reader, agents, sessions, limits; one `AppState` an app."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from starlette.requests import Request

from orienteer.data.passage import Passage, Question
from orienteer.defaults import AGENT
from orienteer.engine.embedded.current import CurrentEngines
from orienteer.engine.protocol import Engine, Hit, filtered
from orienteer.query import Query, parse
from orienteer.reader.protocol import Reader
from orienteer.serve.agent_cache import AgentCache
from orienteer.serve.batching import Batcher, batch_or_one_by_one
from orienteer.serve.errors import LimitError, UnknownIndexError
from orienteer.serve.learned_ranking import LearnedRankings
from orienteer.serve.metrics import Metrics
from orienteer.serve.security import Limits
from orienteer.serve.session_worker import SessionWorker
from orienteer.serve.sessions import SessionManager, SessionStore
from orienteer.serve.source_files import SourceFiles
from orienteer.serve.start_questions import start_questions
from orienteer.serve.uploads import Uploads

FoundPassage = tuple[Hit, Passage]


@dataclass(frozen=True, slots=True)
class SearchJob:
    """One query of one client."""

    index: str
    query: Query
    k: int
    where: str = ""


class AppState:
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
        uploads: Uploads | None = None,
        documents: Mapping[str, Path] | None = None,
    ) -> None:
        self.engines, self.limits, self.uploads = engines, limits, uploads
        self._examples = {next(iter(engines)): list(examples)} if examples else {}
        self.sources = SourceFiles(documents or {})
        self.thumbs_file = saved / "thumbs" / "thumbs.jsonl"  # sessions are the files of `saved` itself
        self.learned = LearnedRankings(saved / "thumbs" / "learned.json")
        self.heavy = asyncio.Semaphore(1)  # tuning, learning and finding queries, one at a time
        self.metrics = Metrics(engines)
        self.agents = AgentCache(engines, limits, agents)
        self.default_agent = agents[0] if agents else AGENT
        self.worker = SessionWorker(engines, reader, limits.batch, self.metrics.batch.labels("moves").observe)
        self.searches: Batcher[SearchJob, list[FoundPassage]] = Batcher(
            self._search, limits.batch, "orienteer-searches", self.metrics.batch.labels("searches").observe
        )
        self.sessions = SessionManager(self.worker, SessionStore(saved, limits.saved), limits)
        self.metrics.running.set_function(lambda: self.sessions.running)
        self.metrics.in_memory.set_function(lambda: len(self.sessions))
        self.metrics.session_bytes.set_function(lambda: self.sessions.bytes_in_memory)

    def index(self, name: str) -> str:
        """The name of a served index; the first where none is given."""
        if not name:
            return next(iter(self.engines))
        if name not in self.engines:
            raise UnknownIndexError(f"no index {name!r} is served here; expected one of {', '.join(self.engines)}")
        return name

    def engine(self, index: str, where: str = "") -> Engine:
        """The engine of a served index, behind a filter; the first where none is named."""
        return filtered(self.engines[self.index(index)], where)

    def query(self, request: Request, text: str) -> Query:
        """A client's query, within the limits; the access log may name it."""
        self.check_text(text)
        request.state.query_text = text
        return parse(text)

    def examples(self, index: str) -> list[Question]:
        """Questions to begin with: those that the server was given, else some made from the index itself."""
        name = self.index(index)
        return self._examples.get(name) or start_questions(self.engines[name])

    def documents(self) -> Mapping[str, Path]:
        """The folders of indexes that were made from uploads."""
        return self.uploads.documents() if self.uploads else {}

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
        return self.worker.alive and self.searches.alive

    def close(self) -> None:
        self.worker.close()
        self.searches.close()
        if isinstance(self.engines, CurrentEngines):
            self.engines.close()
        if self.uploads is not None:
            self.uploads.close()

    def _search(self, jobs: Sequence[SearchJob]) -> list[list[FoundPassage] | Exception]:
        """One call for all queries of one index with one k and one filter."""
        results: dict[int, list[FoundPassage] | Exception] = {}
        for key in dict.fromkeys((job.index, job.k, job.where) for job in jobs):
            index, k, where = key
            places = [i for i, job in enumerate(jobs) if (job.index, job.k, job.where) == key]
            found = batch_or_one_by_one(
                partial(_found_passages, self.engines[index], k, where), [jobs[i].query for i in places]
            )
            results.update(zip(places, found, strict=True))
        return [results[i] for i in range(len(jobs))]


def with_passages(engine: Engine, hit_lists: Sequence[Sequence[Hit]]) -> list[list[FoundPassage]]:
    """Hits of an engine with their passages. Of the same engine: a newer generation may lack some of them."""
    passages = iter(engine.passages([hit.id for hits in hit_lists for hit in hits]))
    return [[(hit, next(passages)) for hit in hits] for hits in hit_lists]


def _found_passages(engine: Engine, k: int, where: str, queries: Sequence[Query]) -> list[list[FoundPassage]]:
    return with_passages(engine, [list(hits) for hits in filtered(engine, where).search_many(queries, k)])


def state_of(request: Request) -> AppState:
    return cast(AppState, request.app.state.shared)
