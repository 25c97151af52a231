"""Waits, attempts and the circuit breaker, on a clock that does not run by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from orienteer.engine.adapters.opensearch.clients import Failure
from orienteer.engine.adapters.opensearch.engine import SessionBudget
from orienteer.engine.adapters.opensearch.retry import CircuitBreaker, Retry
from orienteer.engine.adapters.opensearch.service import NEARLY, Service
from orienteer.engine.adapters.opensearch.settings import Secret, ServiceSettings, read_address
from orienteer.errors import (
    CircuitOpenError,
    NoServiceIndexError,
    SearchBudgetError,
    ServiceAnswerError,
    ServiceRefusedError,
    ServiceUnavailableError,
)


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class Scripted:
    """A client that gives prepared answers, failures among them, and then the last one for ever."""

    def __init__(self, *answers: Any):
        self.answers = list(answers)
        self.sent: list[str | None] = []

    def send(self, method: str, path: str, params: Mapping[str, str], body: str | None, kind: str) -> Any:
        self.sent.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Failure):
            raise answer
        return answer

    def close(self) -> None:
        pass


BUSY = Failure("busy", status=503)


def service(*answers: Any, attempts: int = 4, failures: int = 100, **settings: Any) -> tuple[Service, Scripted, Clock]:
    client, clock = Scripted(*answers), Clock()
    retry = Retry(attempts, CircuitBreaker(failures, 20.0, clock), clock.sleep, seed=1)
    address = read_address("http://localhost:9200/passages")
    return Service(address, ServiceSettings(attempts=attempts, **settings), client, retry), client, clock


def found(*ids: str) -> dict[str, Any]:
    hits = [{"_id": id, "_score": 1.0} for id in ids]
    return {"_shards": {"total": 2, "failed": 0}, "timed_out": False, "hits": {"hits": hits}}


def test_a_request_is_repeated_until_it_succeeds_with_waits_that_double() -> None:
    asked, client, clock = service(BUSY, BUSY, BUSY, {"ok": 1})
    assert asked.ask("GET", "") == {"ok": 1}
    assert len(client.sent) == 4
    assert all(0.125 * 2**n <= wait <= 0.25 * 2**n for n, wait in enumerate(clock.waits))


def test_the_services_own_wish_to_wait_is_granted_up_to_a_limit() -> None:
    asked, _, clock = service(
        Failure("busy", status=429, retry_after=7.0), Failure("busy", status=429, retry_after=900.0), {}
    )
    asked.ask("GET", "")
    assert clock.waits == [7.0, 30.0]


def test_the_last_attempt_ends_in_one_error_that_says_what_came() -> None:
    asked, client, _ = service(BUSY)
    with pytest.raises(ServiceUnavailableError, match=r"in 4 attempts; the last gave: busy \(503\).*_TIMEOUT"):
        asked.ask("GET", "")
    assert len(client.sent) == 4


@pytest.mark.parametrize(
    ("status", "error", "complaint"),
    [
        (400, ServiceAnswerError, "refuses a request"),
        (401, ServiceRefusedError, "credentials sent: none; set ORIENTEER_SEARCH_API_KEY"),
        (403, ServiceRefusedError, "to some that may use 'passages'"),
        (404, NoServiceIndexError, "make it with `orienteer index PASSAGES --to http://localhost:9200/passages`"),
    ],
)
def test_what_will_not_change_is_not_asked_again(status, error, complaint) -> None:
    asked, client, clock = service(Failure("no", status=status))
    with pytest.raises(error, match=complaint):
        asked.ask("GET", "")
    assert len(client.sent) == 1
    assert not clock.waits


def test_a_secret_that_the_service_sends_back_is_not_in_the_error() -> None:
    asked, _, _ = service(Failure("bad key s3cret!", status=403), api_key=Secret("s3cret!"))
    with pytest.raises(ServiceRefusedError, match=r"bad key \*\*\*; credentials sent: an API key") as caught:
        asked.ask("GET", "")
    assert "s3cret" not in str(caught.value)


def test_only_what_is_missing_of_a_batch_is_asked_again() -> None:
    busy = {"error": {"reason": "queue full"}, "status": 429}
    asked, client, _ = service({"responses": [found("a"), busy, found("c")]}, {"responses": [found("b")]})
    answers = asked.search_many([{"query": name} for name in "abc"])
    assert [answer["hits"]["hits"][0]["_id"] for answer in answers] == ["a", "b", "c"]
    assert [line for line in client.sent[1].split("\n") if 'query"' in line] == [json.dumps({"query": "b"})]


def test_equal_searches_are_asked_once() -> None:
    asked, client, _ = service({"responses": [found("a"), found("b")]})
    answers = asked.search_many([{"query": name} for name in "abab"])
    assert [answer["hits"]["hits"][0]["_id"] for answer in answers] == ["a", "b", "a", "b"]
    assert len(client.sent) == 1


def test_a_search_that_the_service_cannot_read_is_not_asked_again() -> None:
    wrong = {"error": {"type": "parsing_exception", "reason": "unknown query"}, "status": 400}
    busy = {"error": {"reason": "queue full"}, "status": 429}
    asked, client, _ = service({"responses": [busy, wrong]})
    with pytest.raises(ServiceAnswerError, match=r"\(400\): unknown query"):
        asked.search_many([{"query": 1}, {"query": 2}])
    assert len(client.sent) == 1


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"responses": [found() | {"_shards": {"total": 2, "failed": 1}}]}, "1 of 2 shards failed"),
        ({"responses": [found() | {"timed_out": True}]}, "ran out of time"),
        ({"responses": [{"took": 1}]}, "without hits"),
        ({"responses": ["?"]}, "no JSON object"),
        ({"responses": []}, "without a response for each search"),
        ([], "without a response for each search"),
        (None, "without a response for each search"),
    ],
)
def test_a_part_of_an_answer_is_no_answer(answer, complaint) -> None:
    asked, client, _ = service(answer)
    with pytest.raises(ServiceUnavailableError, match=complaint):
        asked.search({"query": 1})
    assert len(client.sent) == 4
    asked, _, _ = service(answer, {"responses": [found("a")]})
    assert asked.search({"query": 1}) == found("a")


def test_after_many_failures_in_a_row_nobody_asks_for_a_while() -> None:
    asked, client, clock = service(BUSY, attempts=2, failures=3)
    with pytest.raises(ServiceUnavailableError):
        asked.ask("GET", "")
    with pytest.raises(CircuitOpenError, match="3 times in a row and is not asked for 20 s more"):
        asked.ask("GET", "")  # its first attempt is the third failure
    sent = len(client.sent)
    with pytest.raises(CircuitOpenError):
        asked.ask("GET", "")
    assert len(client.sent) == sent
    clock.now += 30
    with pytest.raises(CircuitOpenError):
        asked.ask("GET", "")  # one attempt, which fails and opens the circuit anew
    assert len(client.sent) == sent + 1
    clock.now += 30
    client.answers = [{"ok": 1}]
    assert asked.ask("GET", "") == asked.ask("GET", "") == {"ok": 1}


def test_a_busy_or_refusing_service_does_not_open_the_circuit() -> None:
    asked, _, _ = service(Failure("busy", status=429), attempts=5, failures=2)
    for _ in range(3):
        with pytest.raises(ServiceUnavailableError, match="in 5 attempts"):
            asked.ask("GET", "")


def test_no_attempt_begins_after_the_deadline() -> None:
    clock = Clock()
    retry = Retry(50, CircuitBreaker(100, 20.0, clock), clock.sleep, seed=1, deadline=3.0, clock=clock)
    made = Service(read_address("http://localhost:9200/passages"), ServiceSettings(attempts=50), Scripted(BUSY), retry)
    with pytest.raises(ServiceUnavailableError):
        made.ask("GET", "")
    assert 1.0 < clock.now <= 3.0


def test_a_filter_is_around_every_search_and_documents_are_fetched_by_search() -> None:
    made, client, _ = service({"responses": [found("a")]}, filter='{"term": {"tenant": "a"}}')
    query = {"term": {"contents": {"value": "river"}}}
    made.search({"query": query, "size": 5})
    made.search({"size": 0})
    made.fetch(["a"], ["text"])
    bodies = [json.loads((sent or "").splitlines()[1]) for sent in client.sent]
    assert [body["query"]["bool"]["filter"] for body in bodies] == [[{"term": {"tenant": "a"}}]] * 3
    wanted = [query, {"match_all": {}}, {"ids": {"values": ["a"]}}]
    assert [body["query"]["bool"]["must"] for body in bodies] == [[each] for each in wanted]


def test_searches_ask_for_statistics_of_the_whole_index_unless_each_shards_own_will_do() -> None:
    made, client, _ = service({"responses": [found("a")]}, {"responses": [found("a")]})
    made.search_many([{"size": 1}])
    made.search_many([{"size": 1}], NEARLY)
    headers = [json.loads((sent or "").splitlines()[0]) for sent in client.sent]
    assert [each["search_type"] for each in headers] == ["dfs_query_then_fetch", "query_then_fetch"]
    assert not any(each["allow_partial_search_results"] for each in headers)


def test_a_session_spends_no_more_than_its_budget_and_the_next_one_has_its_own() -> None:
    budget = SessionBudget(100)
    budget.spend("a question", 60)
    with pytest.raises(SearchBudgetError, match=r"60 more searches would pass the session's budget of 100; raise ORIE"):
        budget.spend("a question", 60)
    budget.spend("a question", 40)
    budget.spend("another question", 100)
    budget.renew("a question")
    budget.spend("a question", 100)
    SessionBudget(None).spend("a question", 10**9)


def test_after_a_failure_searches_take_the_copies_of_the_node_that_is_asked_for_a_while() -> None:
    """The usual copies may be on a node that hangs."""
    made, client, _ = service(
        BUSY, {"responses": [found("a")]}, {"responses": [found("b")]}, {"responses": [found("c")]}
    )
    made._patience._on_retry = made._note_retry
    made.search({"size": 1})
    made.search({"size": 2})
    made._failed -= 60
    made.search({"size": 3})
    headers = [json.loads((sent or "").splitlines()[0])["preference"] for sent in client.sent]
    assert headers == ["orienteer", "_local", "_local", "orienteer"]


def test_requests_retries_and_failures_are_counted() -> None:
    made, _, _ = service(BUSY, {"responses": [found("a")]}, BUSY)
    made._patience._on_retry = made._note_retry
    made.search({"size": 1})
    with pytest.raises(ServiceUnavailableError):
        made.ask("GET", "")
    counted = made.counters.snapshot()
    assert counted.searches == 1
    assert counted.requests == {"_msearch": 1, "other": 1}
    assert counted.failures == {"_msearch": 0, "other": 1}
    assert counted.retries["503"] == 4
    assert sum(counted.buckets) == 2
    made.counters.count_searches(5)
    assert counted.searches == 1


def test_nothing_is_sent_for_no_documents() -> None:
    made, client, _ = service({"items": []})
    assert made.create([]) == []
    assert client.sent == []
