"""The `Engine` over an index of OpenSearch or Elasticsearch."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch.analysis import Analysis, LocalAnalysis, ServiceAnalysis
from orienteer.engine.adapters.opensearch.index_info import OTHER, IndexInfo, read_index_info
from orienteer.engine.adapters.opensearch.query_dsl import QueryBuilder
from orienteer.engine.adapters.opensearch.service import NEARLY, Service
from orienteer.engine.adapters.opensearch.settings import PREFIX, ServiceSettings, read_address
from orienteer.engine.adapters.opensearch.statistics import LEGACY_FACTOR, FieldStatistics, Statistics, read_passage
from orienteer.engine.embedded import bm25
from orienteer.engine.protocol import Hit
from orienteer.engine.request_counters import Counters
from orienteer.errors import SearchBudgetError, ServiceAnswerError, UnknownFieldError, UnknownPassageError
from orienteer.query import FIELDS, Query, Refinement

_ANALYSED = 1 << 14  # texts whose terms are kept
_SESSIONS = 1 << 10  # whose searches are counted
MOST_HITS = 10_000  # what a service gives for one search, as it comes
DslQuery = dict[str, Any] | None


class OpenSearchEngine:
    """`Engine` over an existing index. Safe to share between threads.

    Equal scores come in the order of indexing where the passages know it (an index that `orienteer index --to` made),
    else in the service's own. Statistics are read when they are first needed.
    """

    def __init__(self, service: Service):
        self._service, self._names = service, service.settings.names
        self.info: IndexInfo = read_index_info(service)
        fields = {"contents": self.info.contents} | ({"title": self.info.title} if self.info.title else {})
        searched = {name: each.analyzer_name for name, each in fields.items() if each.analyzer_name != each.indexed_as}
        own = all(field.analyzer != OTHER for field in fields.values())
        self.analysis: Analysis = LocalAnalysis() if own else ServiceAnalysis(service, searched)
        self.statistics = Statistics(service, self.info.shards)
        self.measured: dict[str, FieldStatistics] = {
            name: self.statistics.measure(name, self.analysis)
            if name == "contents" or self.info.title is not None
            else FieldStatistics(0)
            for name in FIELDS
        }
        factors = {name: LEGACY_FACTOR for name, field in self.measured.items() if _is_legacy(field)}
        self._builder = QueryBuilder(self._names, self.analysis, factors, self.info.shards)
        self._budget = SessionBudget(service.settings.budget)
        self._analysed: dict[str, list[str]] = {}

    @property
    def fingerprint(self) -> str:
        """The content's, where we wrote it; else the index's own name for itself."""
        return str(self.info.meta.get("fingerprint") or f"index-{self.info.uuid}")

    @property
    def counters(self) -> Counters:
        """What was sent to the service."""
        return self._service.counters

    def close(self) -> None:
        self._service.close()

    def search(self, query: Query, k: int = 5) -> list[Hit]:
        return self._search([self._builder.build(query)], k)[0]

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[list[Hit]]:
        for query in queries:
            if not query.refinements:  # a session begins
                self._budget.renew(query.question)
        return self._search([self._builder.build(query) for query in queries], k)

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> list[list[Hit]]:
        """The top k of query + r for every r, as batches of searches, some batches at once."""
        self._budget.spend(query.question, len(refinements))
        return self._search(self._builder.build_each(query, refinements), k)

    def refine_nearly(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[str]]:
        """Ids of `refine`'s hits, nearly: each shard scores by its own statistics, which saves a round of requests."""
        self._budget.spend(query.question, len(refinements))
        built = self._builder.build_each(query, refinements)
        bodies = [{"query": each, "size": k, "_source": False, "track_total_hits": False} for each in built if each]
        answers = iter(self._service.search_many(bodies, NEARLY))
        return [[str(row["_id"]) for row in next(answers)["hits"]["hits"]] if each else [] for each in built]

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> list[list[list[Hit]]]:
        """`refine` for many sessions: their searches share batches."""
        for query, options in zip(queries, refinements, strict=True):
            self._budget.spend(query.question, len(options))
        parts = [self._builder.build_each(query, options) for query, options in zip(queries, refinements, strict=True)]
        hits = iter(self._search([each for part in parts for each in part], k))
        return [[next(hits) for _ in part] for part in parts]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        found = self.stored_passages(ids)
        self.analyze_many([passage.contents for passage in found])  # or they will be, one by one
        return found

    def stored_passages(self, ids: Sequence[str]) -> list[Passage]:
        """`passages` for one who does not ask for their terms' idf afterwards."""
        known: dict[str, Passage] = {}
        wanted = list(dict.fromkeys(ids))
        batches = [wanted[at : at + 256] for at in range(0, len(wanted), 256)]
        for found in self._service.in_parallel(self._fetched, batches):
            known.update((passage.id, passage) for passage in found)
        return [known[each] for each in ids]

    def idf(self, field: str, term: str) -> float:
        if field not in FIELDS:
            raise UnknownFieldError(f"unknown field {field!r}; expected {' or '.join(FIELDS)}")
        if field == "title" and self.info.title is None:
            return float(bm25.idf(0, 0))
        # Passages deleted but not yet forgotten are in the one count and not in the other.
        frequency = min(self.statistics.frequency(field, term), self.measured[field].passages)
        return float(bm25.idf(self.measured[field].passages, frequency))

    def analyze(self, text: str) -> list[str]:
        return self.analyze_many([text])[0]

    def analyze_many(self, texts: Sequence[str]) -> list[list[str]]:
        if len(self._analysed) > _ANALYSED:
            self._analysed = {}  # another thread may still look into the old one
        known = self._analysed
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            analysed = [[term for _, term in terms] for terms in self.analysis.positioned_terms("contents", new)]
            self.statistics.expect(term for terms in analysed for term in terms)
            known.update(zip(new, analysed, strict=True))
        return [list(known[text]) for text in texts]

    def _search(self, built: Sequence[DslQuery], k: int) -> list[list[Hit]]:
        if k > MOST_HITS:
            raise ServiceAnswerError(f"{k:,} hits were asked for; a service gives at most {MOST_HITS:,} for a search")
        asked = [at for at, query in enumerate(built) if query is not None and k > 0]
        found: list[list[Hit]] = [[] for _ in built]
        # One hit more than wanted tells whether the last place is shared; only then are ties worth a slower search.
        size = min(k + 1, MOST_HITS) if self.info.ordered else k
        answers = self._service.search_many([self._body(built[at], size) for at in asked])
        shared = []
        for at, answer in zip(asked, answers, strict=True):
            hits = answer["hits"]["hits"]
            if len(hits) > k and _score(hits[k - 1]) == _score(hits[k]):
                shared.append(at)
            else:
                found[at] = self._hits(hits)[:k]
        again = self._service.search_many([self._body(built[at], k, in_order=True) for at in shared])
        for at, answer in zip(shared, again, strict=True):
            found[at] = self._hits(answer["hits"]["hits"])
        return found

    def _body(self, query: DslQuery, size: int, in_order: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"query": query, "size": size, "_source": False, "track_total_hits": False}
        if self.info.ordered:
            body["docvalue_fields"] = [self._names.order]
        if in_order:
            body |= {"sort": [{"_score": "desc"}, {self._names.order: "asc"}], "track_scores": True}
        return body

    def _hits(self, rows: Sequence[Mapping[str, Any]]) -> list[Hit]:
        hits = [Hit(str(row["_id"]), _score(row)) for row in rows]
        if not self.info.ordered:
            return hits
        order = [row.get("fields", {}).get(self._names.order, [at])[0] for at, row in enumerate(rows)]
        best = sorted(range(len(hits)), key=lambda at: (-hits[at].score, order[at]))
        return [hits[at] for at in best]

    def _fetched(self, ids: Sequence[str]) -> list[Passage]:
        rows = self._service.fetch(ids, self._names.stored)
        if missing := next((each for each in ids if each not in rows), None):
            raise UnknownPassageError(f"{self._service.address} holds no passage {missing!r}")
        return [read_passage(self._names, each, rows[each]) for each in ids]


class SessionBudget:
    """How many refinements a session may ask the service for; a session is known by its question."""

    def __init__(self, budget: int | None):
        self._budget = budget
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()

    def renew(self, question: str) -> None:
        with self._lock:
            self._spent.pop(question, None)

    def spend(self, question: str, searches: int) -> None:
        """Raises `SearchBudgetError` where there is not so much left; nothing is spent then."""
        if self._budget is None:
            return
        with self._lock:
            if (spent := self._spent.pop(question, 0) + searches) > self._budget:
                self._spent[question] = spent - searches
                raise SearchBudgetError(
                    f"{searches:,} more searches would pass the session's budget of {self._budget:,}; raise "
                    f"{PREFIX}BUDGET, or look at refinements elsewhere: in a pool (pool:URL) or a mirror"
                )
            self._spent[question] = spent
            if len(self._spent) > _SESSIONS:
                del self._spent[next(iter(self._spent))]


def connect(address: str | Path, settings: ServiceSettings | None = None) -> OpenSearchEngine:
    """The engine over the index at `https://host:9200/index`; credentials come from the environment."""
    return OpenSearchEngine(Service(read_address(address), settings or ServiceSettings.from_environment()))


def _is_legacy(field: FieldStatistics) -> bool:
    return abs(field.factor - LEGACY_FACTOR) < 1e-3


def _score(row: Mapping[str, Any]) -> float:
    """A score as the float32 that the service printed."""
    return float(np.float32(row["_score"]))
