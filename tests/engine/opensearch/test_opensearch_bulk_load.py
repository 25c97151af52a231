"""Loading: the mapping, every fault on the way, going on after a break, and what must not be touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from orienteer.bundled import bundled_passages
from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch import FieldNames, OpenSearchEngine, ServiceSettings
from orienteer.engine.adapters.opensearch import bulk_load as loading
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.retry import CircuitBreaker, Retry
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.errors import (
    DataError,
    DuplicateIdError,
    ServiceAddressError,
    ServiceIndexError,
    ServiceUnavailableError,
)

PASSAGES = bundled_passages()[:230]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BATCH_PASSAGES", 20)


@pytest.fixture(scope="module")
def double(start) -> Any:
    return start()


def service(double: Any, name: str, **settings: Any) -> Service:
    made = ServiceSettings(**{"timeout": 600, "attempts": 4, "concurrency": 2, **settings})
    retry = Retry(made.attempts, CircuitBreaker(), lambda seconds: None, seed=1)
    return Service(read_address(f"{double.base}/{name}"), made, None, retry)


def documents_sent(double: Any, name: str) -> int:
    return sum(len(seen.lines) // 2 for seen in double.requests(f"/{name}/_bulk"))


def test_the_index_is_made_as_the_embedded_engine_scores(double) -> None:
    done: list[int] = []
    result = load(service(double, "made"), PASSAGES, shards=2, replicas=0, progress=done.append)
    assert (result.passages, result.already_there) == (230, 0)
    assert done == sorted(done)
    assert done[-1] == 230
    index = double.indexes["made"]
    assert index.mappings["_meta"]["orienteer"] == {
        "format": 1, "complete": True, "passages": 230, "fingerprint": result.fingerprint,
    }  # fmt: skip
    assert index.settings["similarity"] == {"orienteer": {"type": "BM25", "k1": 1.2, "b": 0.75}}
    assert index.settings["analysis"]["analyzer"]["orienteer"] == {"type": "standard", "stopwords": "_english_"}
    assert (index.settings["refresh_interval"], index.settings["number_of_replicas"]) == (None, 0)
    assert OpenSearchEngine(service(double, "made")).fingerprint == result.fingerprint


def test_a_load_that_was_broken_off_goes_on_where_it_stopped(double) -> None:
    from double import Fault

    double.faults = [Fault("503", times=99, path="broken/_bulk", skip=5)]
    with pytest.raises(ServiceUnavailableError):
        load(service(double, "broken"), PASSAGES)
    double.faults = []
    sent = documents_sent(double, "broken")
    held = len(double.indexes["broken"].sources)
    assert 60 <= held < 230
    double.seen.clear()
    result = load(service(double, "broken"), PASSAGES)
    assert result.passages == 230
    assert 60 <= result.already_there <= held
    assert documents_sent(double, "broken") == 230 - result.already_there < sent + 230
    assert {id: source["orienteer_order"] for id, source in double.indexes["broken"].sources.items()} == {
        passage.id: number for number, passage in enumerate(PASSAGES)
    }
    assert result.fingerprint == load(service(double, "unbroken"), PASSAGES).fingerprint


def test_a_load_killed_between_two_requests_at_once_leaves_no_gap(double) -> None:
    """Of requests under way at once a later one may arrive alone; the gap before it is filled, and it is not lost."""

    def cut() -> Iterator[Passage]:
        yield from PASSAGES[:60]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(service(double, "gap", concurrency=1), cut())
    late = [(p.id, loading._document(ServiceSettings().names, 80 + n, p)) for n, p in enumerate(PASSAGES[80:100])]
    service(double, "gap").create(late)
    result = load(service(double, "gap"), PASSAGES)
    assert (result.passages, result.already_there) == (230, 60)


def test_a_second_load_of_the_same_passages_sends_nothing(double) -> None:
    first = load(service(double, "twice"), PASSAGES)
    double.seen.clear()
    second = load(service(double, "twice"), PASSAGES)
    assert replace(second, already_there=0) == first
    assert second.already_there == 230
    assert not double.requests("/twice/_bulk")
    longer = load(service(double, "twice"), bundled_passages()[:250])
    assert (longer.passages, longer.already_there) == (250, 230)


@pytest.mark.parametrize("kind", ["slow", "429", "503", "drop", "html", "json", "some"])
def test_a_fault_that_passes_loses_no_passage_and_stores_none_twice(double, kind) -> None:
    from double import Fault

    name = f"fault-{kind}"
    double.faults = [Fault(kind, times=2, path=f"{name}/_bulk", skip=1), Fault(kind, times=1, path=f"/{name}")]
    patience = {"timeout": 1.5, "attempts": 20} if kind == "slow" else {}
    assert load(service(double, name, **patience), PASSAGES).passages == 230
    assert all(fault.times == 0 for fault in double.faults)
    assert len(double.indexes[name].sources) == 230


def test_other_passages_than_those_loaded_are_refused(double) -> None:
    load(service(double, "ours"), PASSAGES)
    changed = [*PASSAGES[:100], replace(PASSAGES[100], text="something else"), *PASSAGES[101:]]
    with pytest.raises(ServiceIndexError, match="holds 230 passages where 3 were given"):
        load(service(double, "ours"), PASSAGES[:3])
    with pytest.raises(ServiceIndexError, match="holds other passages than those given: number 1, "):
        load(service(double, "ours"), PASSAGES[::-1])
    loading.COMPARED = 1000
    try:
        with pytest.raises(ServiceIndexError, match="holds other passages than those given: number 101, "):
            load(service(double, "ours"), changed)
    finally:
        loading.COMPARED = 64


def test_an_index_of_somebody_elses_is_not_touched(double) -> None:
    theirs = service(double, "theirs")
    theirs.ask("PUT", "", {"mappings": {"properties": {"contents": {"type": "text"}}}})
    double.seen.clear()
    with pytest.raises(ServiceIndexError, match="was not made by `orienteer index --to`"):
        load(theirs, PASSAGES)
    assert {seen.method for seen in double.requests("/theirs")} == {"GET"}


def test_two_passages_with_one_id_are_refused(double) -> None:
    with pytest.raises(DuplicateIdError, match=r"number 5 and number 226") as caught:
        load(service(double, "double"), [*PASSAGES[:225], replace(PASSAGES[4], text="again"), *PASSAGES[225:]])
    assert caught.value.passage_id == PASSAGES[4].id
    with pytest.raises(DuplicateIdError, match=r"number 1 and number 2"):
        load(service(double, "double-2"), [PASSAGES[0], PASSAGES[0]])


def test_an_addition_that_was_broken_off_does_not_pass_for_complete(double) -> None:
    from double import Fault

    load(service(double, "added"), PASSAGES[:100])
    double.faults = [Fault("503", times=99, path="added/_bulk", skip=2)]
    with pytest.raises(ServiceUnavailableError):
        load(service(double, "added"), PASSAGES)
    double.faults = []
    assert double.indexes["added"].mappings["_meta"]["orienteer"] == {"format": 1, "complete": False}


def test_one_field_for_two_things_is_refused(double) -> None:
    with pytest.raises(ServiceAddressError, match="a field each"):
        load(service(double, "fields", names=FieldNames("body", "head", "body")), PASSAGES)


def test_an_id_that_no_service_takes_is_refused(double) -> None:
    with pytest.raises(DataError, match="has 600 bytes; a service takes 1 to 512"):
        load(service(double, "long"), [Passage("x" * 600, "", "text")])


def test_what_is_no_character_becomes_a_question_mark(double) -> None:
    load(service(double, "lone"), [Passage("a", "", "lone \ud800 surrogate")])
    assert OpenSearchEngine(service(double, "lone")).passages(["a"]) == [Passage("a", "", "lone ? surrogate")]
