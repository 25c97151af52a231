"""A search service as the engine uses it: requests that are carried out whole, or end in one clear error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from orienteer.engine.adapters.opensearch.clients import JSON, LINES, Client, Failure, open_client, scrub
from orienteer.engine.adapters.opensearch.retry import CircuitBreaker, Retry
from orienteer.engine.adapters.opensearch.settings import PREFIX, Address, ServiceSettings
from orienteer.engine.request_counters import Counters
from orienteer.errors import (
    NoServiceIndexError,
    ServiceAnswerError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnavailableError,
)

T = TypeVar("T")
S = TypeVar("S")
Body = Mapping[str, Any]

# Statistics of the whole index, not of each shard, and no results of some shards only.
SEARCH = {"search_type": "dfs_query_then_fetch", "allow_partial_search_results": False}
NEARLY = {**SEARCH, "search_type": "query_then_fetch"}  # statistics of each shard
# The same copy of a shard each time, or ties would change places. But the usual copies may be on a node that hangs,
# which a cluster notices after half a minute or more: for a while after a failure, those of the node that is asked.
PREFERENCE, PREFERENCE_AFTER_FAILURE, WHILE = "orienteer", "_local", 60.0  # seconds


class Service:
    """One service and index. Safe to share between threads."""

    def __init__(
        self, address: Address, settings: ServiceSettings, client: Client | None = None, retry: Retry | None = None
    ):
        self.address, self.settings = address, settings
        self._client = client if client is not None else open_client(address, settings)
        self.counters = Counters()
        self._patience = retry or Retry(
            settings.attempts, CircuitBreaker(), deadline=settings.deadline,
            on_retry=self._note_retry,
        )  # fmt: skip
        self._failed = -WHILE  # when a request failed last
        self._secrets = settings.secrets()
        self._filter = None if settings.filter is None else json.loads(settings.filter)
        self.several = False  # whether the name is an alias or a data stream of several indexes
        self.newest = address  # one index of them, by its own name, for requests that take no more than one
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._client.close()

    def ask(self, method: str, path: str, body: Body | None = None, **params: str) -> Any:
        """The JSON that the service gives for a path below the index's own; "" is the index itself."""
        written = None if body is None else json.dumps(body)
        return self._carry_out(lambda: self._client.send(method, self.address.path + path, params, written, JSON))

    def ask_list(
        self, method: str, path: str, body: Body, key: str, length: int | None = None, **params: str
    ) -> list[Any]:
        """A list in the answer, of a known length where there is one; an answer without it is no answer."""
        written = json.dumps(body)
        whole = (self.newest if path == "/_analyze" else self.address).path + path

        def request() -> list[Any]:
            answer = self._client.send(method, whole, params, written, JSON)
            found = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(found, list) or (length is not None and len(found) != length):
                raise Failure(f"an answer to {path[1:]} without the expected {key}", retryable=True)
            return found

        return self._carry_out(request, path[1:])

    def describe(self) -> dict[str, Any]:
        """Mappings and settings of the index by its name, or of each of them where the name stands for several."""

        def request() -> dict[str, Any]:
            answer = self._client.send("GET", self.address.path, {}, None, JSON)
            whole = (
                isinstance(answer, dict)
                and answer
                and all(
                    isinstance(each, dict) and isinstance(each.get("settings", {}).get("index"), dict)
                    for each in answer.values()
                )
            )
            if not whole:
                raise Failure("an answer without the settings of an index", retryable=True)
            return dict(answer)

        return self._carry_out(request)

    def about(self) -> Any:
        """What the service says of itself."""
        return self._carry_out(lambda: self._client.send("GET", "/", {}, None, JSON))

    def health(self) -> Any:
        return self._carry_out(lambda: self._client.send("GET", f"/_cluster/health{self.address.path}", {}, None, JSON))

    def search(self, body: Body) -> dict[str, Any]:
        return self.search_many([body])[0]

    def search_many(self, bodies: Sequence[Body], kind: Body = SEARCH) -> list[dict[str, Any]]:
        """The answers to many searches: in batches, some batches at once. Equal bodies are asked once.

        Every search of Orienteer goes through here, and here the mandatory filter is put around it.
        """
        written = [json.dumps(self._filtered(body)) for body in bodies]
        wanted = list(dict.fromkeys(written))
        size = self.settings.batch
        batches = [wanted[at : at + size] for at in range(0, len(wanted), size)]
        found = [answer for part in self.in_parallel(partial(self._search_batch, kind), batches) for answer in part]
        known = dict(zip(wanted, found, strict=True))
        return [known[text] for text in written]

    def search_shard(self, shard: int, body: Body) -> list[Any]:
        """The hits of one shard, in the order that the body asks for; the mandatory filter is kept here too."""
        written = json.dumps(self._filtered(body))
        params = {"preference": f"_shards:{shard}", "allow_partial_search_results": "false"}

        def request() -> list[Any]:
            answer = self._client.send("POST", f"{self.address.path}/_search", params, written, JSON)
            if (failure := _incomplete(answer)) is not None:
                raise failure
            return list(answer["hits"]["hits"])

        self.counters.count_searches(1)
        return self._carry_out(request, "_search")

    def document_frequencies(self, field: str, terms: Sequence[str], shard: int) -> dict[str, int]:
        """In how many documents of a shard each term stands, read off its dictionary: no search.

        The terms go as a document that is not stored; the answer tells of each of its terms what the shard knows.
        """
        body = {
            "doc": {field: " ".join(terms)}, "per_field_analyzer": {field: "whitespace"}, "fields": [field],
            "term_statistics": True, "field_statistics": False, "positions": False, "offsets": False, "payloads": False,
        }  # fmt: skip
        written, params = json.dumps(body), {"preference": f"_shards:{shard}"}

        def request() -> dict[str, int]:
            answer = self._client.send("POST", f"{self.newest.path}/_termvectors", params, written, JSON)
            try:
                found = answer["term_vectors"][field]["terms"]
                return {term: int(known.get("doc_freq", 0)) for term, known in found.items()}
            except (KeyError, TypeError, AttributeError):
                raise Failure("an answer without the terms of a document") from None

        return self._carry_out(request, "_termvectors")

    def fetch(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Stored fields of documents by id; those that are not there, or not for the filter, are left out."""
        if self.settings.filter is None and self.newest == self.address:  # else it may soon be several
            rows = self.ask_list("POST", "/_mget", {"ids": list(ids)}, "docs", len(ids), _source=",".join(fields))
            return {str(row["_id"]): row.get("_source", {}) for row in rows if row.get("found")}
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": list(fields)}
        return {str(row["_id"]): row.get("_source", {}) for row in self.search(body)["hits"]["hits"]}

    def _filtered(self, body: Body) -> Body:
        """The search with the mandatory filter around its query, where there is one. Scores stay as they are."""
        if self._filter is None:
            return body
        wanted = body.get("query", {"match_all": {}})
        return {**body, "query": {"bool": {"must": [wanted], "filter": [self._filter]}}}

    def create(self, documents: Sequence[tuple[str, Body]]) -> list[bool]:
        """Store documents by id. False where the service already holds that id, whatever is in it."""
        if not documents:
            return []  # a server refuses a bulk request without a body
        stored: dict[int, bool] = {}
        lines = [
            json.dumps({"create": {"_id": name}}) + "\n" + json.dumps(body, ensure_ascii=False) + "\n"
            for name, body in documents
        ]

        def request() -> None:
            missing = [at for at in range(len(lines)) if at not in stored]
            body = "".join(lines[at] for at in missing)
            answer = self._client.send("POST", f"{self.address.path}/_bulk", {}, body, LINES)
            items = answer.get("items") if isinstance(answer, dict) else None
            if not isinstance(items, list) or len(items) != len(missing):
                raise Failure("an answer to _bulk without an item for each document", retryable=True)
            failures = []
            for at, item in zip(missing, items, strict=True):
                result = item.get("create", {}) if isinstance(item, dict) else {}
                if result.get("status") in (200, 201, 409):
                    stored[at] = result["status"] != 409
                else:
                    failures.append(_failure(result, f"document {documents[at][0]!r}: "))
            for failure in sorted(failures, key=lambda each: each.retryable):
                raise failure

        self._carry_out(request, "_bulk")
        return [stored[at] for at in range(len(lines))]

    def in_parallel(self, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """work(item) for each, at most `concurrency` under way; results in the items' order."""
        if len(items) < 2 or self.settings.concurrency == 1:
            return [work(item) for item in items]
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.settings.concurrency, "search-service")
        return list(self._pool.map(work, items))

    def _search_batch(self, kind: Body, bodies: Sequence[str]) -> list[dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}

        def request() -> None:
            """Ask for what is still missing; a batch of which some is answered is asked for the rest only."""
            header = json.dumps({**kind, "preference": self._preference()})
            missing = [at for at in range(len(bodies)) if at not in answers]
            lines = "".join(f"{header}\n{bodies[at]}\n" for at in missing)
            answer = self._client.send("POST", f"{self.address.path}/_msearch", {}, lines, LINES)
            parts = answer.get("responses") if isinstance(answer, dict) else None
            if not isinstance(parts, list) or len(parts) != len(missing):
                raise Failure("an answer to _msearch without a response for each search", retryable=True)
            failures = []
            for at, part in zip(missing, parts, strict=True):
                if (failure := _incomplete(part)) is None:
                    answers[at] = part
                else:
                    failures.append(failure)
            for failure in sorted(failures, key=lambda each: each.retryable):
                raise failure

        self.counters.count_searches(len(bodies))
        self._carry_out(request, "_msearch")
        return [answers[at] for at in range(len(bodies))]

    def _note_retry(self, failure: Failure) -> None:
        self.counters.count_retry(failure.status)
        self._failed = time.monotonic()

    def _preference(self) -> str:
        return PREFERENCE_AFTER_FAILURE if time.monotonic() - self._failed < WHILE else PREFERENCE

    def _carry_out(self, request: Callable[[], T], kind: str = "other") -> T:
        started, failed = time.perf_counter(), True
        try:
            answer = self._patience.run(request)
            failed = False
            return answer
        except Failure as failure:
            raise self._error(failure) from None
        finally:
            self.counters.count_request(kind, time.perf_counter() - started, failed=failed)

    def _error(self, failure: Failure) -> ServiceError:
        address, settings = self.address, self.settings
        reason = scrub(failure.reason, self._secrets)
        status = f" ({failure.status})" if failure.status else ""
        if failure.status in (401, 403):
            sent = "an API key" if settings.api_key else f"the user {settings.user!r}" if settings.user else "none"
            return ServiceRefusedError(
                f"{address.base} refuses{status}: {reason}; credentials sent: {sent}; "
                f"set {PREFIX}API_KEY, or {PREFIX}USER and {PREFIX}PASSWORD, to some that may use {address.index!r}"
            )
        if failure.status == 404:
            return NoServiceIndexError(
                f"no index {address.index!r} at {address.base}; "
                f"name another, or make it with `orienteer index PASSAGES --to {address}`"
            )
        if failure.retryable:
            return ServiceUnavailableError(
                f"no whole answer from {address} in {settings.attempts} attempts; the last gave: {reason}{status}; "
                f"see that the service is well, or give it more time with {PREFIX}TIMEOUT "
                f"(now {settings.timeout:g} s) and {PREFIX}ATTEMPTS"
            )
        return ServiceAnswerError(f"{address} refuses a request{status}: {reason}")


def _incomplete(part: Any) -> Failure | None:
    """Why a search's answer is not to be used; None for a whole one."""
    if not isinstance(part, dict):
        return Failure("a response that is no JSON object", retryable=True)
    if "error" in part:
        return _failure(part)
    shards, hits = part.get("_shards"), part.get("hits")
    if not isinstance(hits, dict) or not isinstance(hits.get("hits"), list) or not isinstance(shards, dict):
        return Failure("a response without hits", retryable=True)
    if part.get("timed_out"):
        return Failure("a search that ran out of time on the service", retryable=True)
    if shards.get("failed"):
        return Failure(f"{shards['failed']} of {shards.get('total', '?')} shards failed", retryable=True)
    return None


def _failure(part: dict[str, Any], what: str = "") -> Failure:
    """A search or document that the service refused, within a request that it accepted."""
    error, status = part.get("error"), part.get("status")
    reason = error.get("reason") or error.get("type") if isinstance(error, dict) else error
    return Failure(f"{what}{reason}", status=status if isinstance(status, int) else 500)
