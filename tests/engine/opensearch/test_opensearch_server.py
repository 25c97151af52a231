"""What only real servers can show (`make test-opensearch`). Every other test of this folder runs there too."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from orienteer.bundled import bundled_engine, bundled_passages, bundled_questions
from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.doctor import examine
from orienteer.engine.adapters.opensearch.mirror import Mirror, open_mirror
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import FieldNames, read_address
from orienteer.engine.check import check_engine
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze
from orienteer.query import FIELDS, G4, Query, Refinement

PATIENT = ServiceSettings(timeout=120)
SERVER = os.environ.get("ORIENTEER_TEST_SERVER", "")


def fresh(url: str, name: str, settings: ServiceSettings = PATIENT) -> Service:
    """A service whose index is not there yet."""
    service = Service(read_address(f"{url}/{name}"), settings)
    service.ask("DELETE", "", ignore_unavailable="true")
    return service


@pytest.fixture(scope="module")
def service(url: str) -> Iterator[Service]:
    service = fresh(url, "bundled")
    load(service, bundled_passages(), shards=3, replicas=0)
    yield service
    service.ask("DELETE", "")


def random_queries(count: int, passages: list[Passage], seed: int) -> list[Query]:
    rng = random.Random(seed)
    words = [term for passage in passages for term in analyze(passage.contents)]

    def refinement() -> Refinement:
        at = rng.randrange(len(words) - 2)
        term = " ".join(words[at : at + rng.choice([1, 1, 2])])
        return rng.choice(list(G4.refinements(rng.choice(FIELDS), term)))

    questions = rng.sample(bundled_questions("train"), 100)
    return [
        Query(rng.choice(questions).question, tuple(refinement() for _ in range(rng.randint(0, 4))))
        for _ in range(count)
    ]


def test_a_real_service_keeps_the_contract(service) -> None:
    check_engine(OpenSearchEngine(service), bundled_passages()[:60])


def test_a_real_service_gives_the_embedded_engines_results_to_the_bit(service) -> None:
    queries = random_queries(500, bundled_passages(), 1)
    came = OpenSearchEngine(service).search_many(queries, 10)
    for query, hits, wanted in zip(queries, came, bundled_engine().search_many(queries, 10), strict=True):
        assert hits == list(wanted), str(query)


# A mandatory filter, several fields, aliases: indexes of others.

DOCUMENTS = [
    {"tenant": "a" if number % 3 else "b", "head": passage.title, "body": passage.text, "note": passage.title}
    for number, passage in enumerate(bundled_passages()[:300])
]


@pytest.fixture(scope="module")
def theirs(url: str) -> str:
    """English stemming, other names, a tenant in each document, an alias over two indexes."""
    text = {"type": "text", "analyzer": "english"}
    mapping = {"properties": {"head": text, "body": text, "note": text, "tenant": {"type": "keyword"}}}
    for name, part in (("theirs-1", slice(0, 150)), ("theirs-2", slice(150, 300))):
        service = fresh(url, name)
        service.ask("PUT", "", {"mappings": mapping, "settings": {"number_of_shards": 2, "number_of_replicas": 0}})
        numbers = range(300)[part]
        service.create([(str(number), DOCUMENTS[number]) for number in numbers])
        service.ask("POST", "/_refresh")
        service.ask("PUT", "/_alias/theirs")
    return f"{url}/theirs"


def names(**given: str) -> FieldNames:
    return FieldNames(**{"contents": "body", "title": "head", "text": "body", **given})


def test_no_operator_drops_the_mandatory_filter(theirs) -> None:
    settings = ServiceSettings(timeout=120, names=names(), filter='{"term": {"tenant": "a"}}')
    engine = OpenSearchEngine(Service(read_address(theirs), settings))
    allowed = {str(number) for number, document in enumerate(DOCUMENTS) if document["tenant"] == "a"}
    queries = random_queries(60, bundled_passages()[:300], 2)
    lists = engine.search_many(queries, 300)
    lists += engine.refine(Query("the river"), [r for query in queries for r in query.refinements], 300)
    assert sum(map(len, lists)) > 1000
    assert {hit.id for hits in lists for hit in hits} <= allowed
    everything = OpenSearchEngine(Service(read_address(theirs), ServiceSettings(timeout=120, names=names())))
    for query, filtered, whole in zip(queries, lists, everything.search_many(queries, 300), strict=False):
        assert {hit.id: hit.score for hit in filtered} == {hit.id: hit.score for hit in whole if hit.id in allowed}, (
            str(query)
        )


def test_idf_within_a_filter_counts_what_the_filter_lets_through(theirs) -> None:
    settings = ServiceSettings(timeout=120, names=names(), filter='{"term": {"tenant": "a"}}')
    engine = OpenSearchEngine(Service(read_address(theirs), settings))
    held = [set(engine.analyze(row["body"])) for row in DOCUMENTS if row["tenant"] == "a"]
    for term in engine.analyze("rivers and planets of the south"):
        assert engine.idf("contents", term) == bm25.idf(len(held), sum(term in words for words in held)), term


def test_the_doctor_says_what_an_agent_can_use(theirs) -> None:
    settings = ServiceSettings(timeout=120, names=names(contents="body+note^0.5"), filter='{"term": {"tenant": "a"}}')
    said = [finding.what for finding in examine(Service(read_address(theirs), settings), sample=10)]
    for words in ("200 documents are within it", "stands for several indexes", "body (weight 1) and note (weight 0.5)",
                  "as 'english' changes them"):  # fmt: skip
        assert any(words in each for each in said), said
    nobody = ServiceSettings(timeout=120, names=names(), filter='{"term": {"tenant": "nobody"}}')
    levels = [finding.level for finding in examine(Service(read_address(theirs), nobody), sample=10)]
    assert "bad" in levels


def test_a_passage_that_the_filter_hides_cannot_be_read(theirs) -> None:
    from orienteer.errors import UnknownPassageError

    settings = ServiceSettings(timeout=120, names=names(), filter='{"term": {"tenant": "a"}}')
    engine = OpenSearchEngine(Service(read_address(theirs), settings))
    assert engine.passages(["1", "2"])[0].text == DOCUMENTS[1]["body"]
    with pytest.raises(UnknownPassageError, match="'0'"):
        engine.passages(["1", "0"])


def test_a_trial_sends_no_query_without_the_mandatory_filter(cluster, theirs, tmp_path, monkeypatch, capsys) -> None:
    """The servers' slow logs hold every query of every shard: the same number with the filter, none without."""
    from orienteer import cli

    def logged(part: str = "") -> int:
        files = (each for node in cluster.nodes for each in node.folder.glob("node_1/logs/*search_slowlog.log"))
        lines = [line for each in files for line in each.read_text("utf-8").splitlines() if "[theirs-" in line]
        return sum(part in line for line in lines)

    monkeypatch.setenv("ORIENTEER_SEARCH_FIELDS", "contents=body,title=head,text=body")
    monkeypatch.setenv("ORIENTEER_SEARCH_TIMEOUT", "600")
    questions, report = tmp_path / "questions.jsonl", tmp_path / "trial.md"
    rows = [{"id": q.id, "question": q.question, "answers": list(q.answers)} for q in bundled_questions("train")[:2]]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    service = Service(read_address(theirs), PATIENT)
    service.ask("PUT", "/_settings", {"index.search.slowlog.threshold.query.trace": "0ms"})
    before = logged()
    try:
        for way in ([], ["--pool"]):
            words = ["trial", theirs, "--questions", str(questions), "--filter", '{"term": {"tenant": "a"}}', *way]
            cli.app([*words, "--steps", "2", "--out", str(report)], standalone_mode=False)
            for shown in ("the service's own ranking", "agent `pointer`", "more than chance", "searches a question"):
                assert shown in report.read_text("utf-8")
    finally:
        service.ask("PUT", "/_settings", {"index.search.slowlog.threshold.query.trace": None})
    searches = logged() - before
    assert searches > 2000
    assert logged('"tenant":{"value":"a"') == searches
    print(f"{searches:,} queries in the slow log, none without the filter\n{report.read_text('utf-8')}")


def test_a_word_in_several_fields_scores_the_sum_of_their_weighted_scores(theirs) -> None:
    def scores(contents: str) -> dict[str, float]:
        settings = ServiceSettings(timeout=120, names=names(contents=contents))
        hits = OpenSearchEngine(Service(read_address(theirs), settings)).search(Query("rivers"), 300)
        return {hit.id: hit.score for hit in hits}

    body, note, both = scores("body"), scores("note"), scores("body+note^0.5")
    assert set(both) == set(body) | set(note)
    assert len(note) > 0
    for id, score in both.items():
        assert score == pytest.approx(body.get(id, 0) + 0.5 * note.get(id, 0), rel=1e-5)


def test_words_are_read_as_searches_read_them_where_passages_hold_beginnings_of_words_too(url) -> None:
    """An index for search as you type: `riv`, `rive` and `river` are terms of a passage with the word river."""
    analysis = {
        "filter": {"beginnings": {"type": "edge_ngram", "min_gram": 3, "max_gram": 15}},
        "analyzer": {"typed": {"type": "custom", "tokenizer": "standard", "filter": ["lowercase", "beginnings"]}},
    }
    text = {"type": "text", "analyzer": "typed", "search_analyzer": "stop"}
    service = fresh(url, "typed", ServiceSettings(timeout=120, names=names()))
    service.ask(
        "PUT", "",
        {"mappings": {"properties": {"head": text, "body": text}},
         "settings": {"analysis": analysis, "number_of_shards": 1, "number_of_replicas": 0}},
    )  # fmt: skip
    service.create([(str(number), row) for number, row in enumerate(DOCUMENTS)])
    service.ask("POST", "/_refresh")
    engine = OpenSearchEngine(service)
    assert engine.analyze("The rivers") == ["rivers"]
    word, beginning = (
        {number for number, row in enumerate(DOCUMENTS) if any(w.startswith(typed) for w in analyze(row["body"]))}
        for typed in ("rivers", "riv")
    )
    assert 0 < len(word) < len(beginning)
    for typed, held in (("rivers", word), ("riv", beginning)):
        hits = engine.search(Query("nothing", (Refinement("+", "contents", typed),)), 300)
        assert {int(hit.id) for hit in hits} == held
        assert engine.idf("contents", typed) == bm25.idf(300, len(held))
    said = [finding.what for finding in examine(service, sample=10)]
    assert "contents (body): passages were indexed with another analyser, 'typed'" in said


def test_a_data_stream_is_searched_before_and_after_it_rolls_over(url) -> None:
    if SERVER.startswith("elasticsearch-7"):
        pytest.skip("the free Elasticsearch 7.10 has no data streams")
    base = Service(read_address(f"{url}/stream"), PATIENT)
    text = {"properties": {name: {"type": "text"} for name in ("contents", "title", "text")}}
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    template = {"index_patterns": ["stream"], "data_stream": {}, "template": {"settings": settings, "mappings": text}}

    def send(method: str, path: str, body: Any = None) -> Any:
        return base._client.send(method, path, {}, None if body is None else json.dumps(body), "application/json")

    send("PUT", "/_index_template/stream", template)
    send("PUT", "/_data_stream/stream")
    passages = bundled_passages()[:60]
    try:
        for number, passage in enumerate(passages):
            if number == 30:
                send("POST", "/stream/_rollover")
            row = {"@timestamp": "2026-01-01T00:00:00Z", "title": passage.title, "contents": passage.contents}
            base.ask("PUT", f"/_create/{passage.id}", {**row, "text": passage.text}, refresh="true")
            if number not in (29, 59):
                continue
            engine = OpenSearchEngine(Service(read_address(f"{url}/stream"), PATIENT))
            held = passages[: number + 1]
            assert engine.passages([each.id for each in held]) == held
            rivers = {each.id for each in held if "river" in analyze(each.contents)}
            [hits] = engine.refine(Query("nothing"), [Refinement("+", "contents", "river")], 60)
            assert {hit.id for hit in hits} == rivers
            assert engine.idf("contents", "river") == bm25.idf(len(held), len(rivers))
    finally:
        send("DELETE", "/_data_stream/stream")
        send("DELETE", "/_index_template/stream")


# Mirrors


def forget_deleted(service: Service) -> None:
    """Merge until no deleted passage counts in the statistics: a server keeps some for copies that may want them."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        service.ask("POST", "/_flush", force="true")
        service.ask("POST", "/_forcemerge", max_num_segments="1")
        service.ask("POST", "/_refresh")
        if service.ask("GET", "/_stats/docs")["_all"]["primaries"]["docs"]["deleted"] == 0:
            return
        time.sleep(1)
    raise AssertionError("the server keeps deleted passages")


def test_a_mirror_follows_additions_changes_and_deletions(url, tmp_path) -> None:
    service = fresh(url, "followed")
    passages = bundled_passages()[:400]
    load(service, passages[:300], shards=2, replicas=0)
    mirror = Mirror(service, tmp_path)
    assert str(mirror.catch_up()).endswith("300 passages of " + str(service.address) + ", up to date")
    order = service.settings.names.order
    for number, passage in enumerate(passages[300:], 300):
        body = {"contents": passage.contents, "title": passage.title, "text": passage.text, order: number}
        service.ask("PUT", f"/_doc/{passage.id}", body)
    for passage in passages[:50]:
        service.ask("DELETE", f"/_doc/{passage.id}")
    assert mirror.status().behind == 150
    changed = {"contents": "changed words", "text": "changed words", order: 60}
    service.ask("PUT", f"/_doc/{passages[60].id}", changed)
    assert mirror.catch_up().behind == 0
    forget_deleted(service)
    local, remote = open_mirror(tmp_path, PATIENT), OpenSearchEngine(service)
    queries = random_queries(500, passages, 3)
    came = remote.search_many(queries, 5)
    for query, wanted, hits in zip(queries, came, local._local.search_many(queries, 5), strict=True):
        assert list(hits) == wanted, str(query)
    assert local.passages([passages[60].id])[0].text == "changed words"


def test_a_mirror_that_is_killed_again_and_again_ends_with_the_services_results(url, tmp_path) -> None:
    """ORIENTEER_MIRROR_KILLS says how often; while it follows, passages are written, changed and deleted."""
    from following import follow  # it opens a client when it is imported, which only those who test servers have

    service, rng, passages = fresh(url, "killed"), random.Random(5), bundled_passages()[:600]
    load(service, passages[:300], shards=2, replicas=0)
    order = service.settings.names.order
    processes = multiprocessing.get_context("forkserver")  # so that a process is there at once
    processes.set_forkserver_preload(["following"])
    kills = int(os.environ.get("ORIENTEER_MIRROR_KILLS", "3"))
    writes, whole = 0, 0.0  # seconds from a process's start until it has caught up, when nothing kills it
    for number in range(
        2 + kills
    ):  # the first has all to follow, the second tells how long it takes when little is new
        told, tell = processes.Pipe(duplex=False)
        process = processes.Process(target=follow, args=(str(service.address), str(tmp_path), tell), daemon=True)
        process.start()
        tell.close()
        started = time.perf_counter()
        for _ in range(rng.randint(1, 2)):
            at, writes = rng.randrange(len(passages)), writes + 1
            if rng.random() < 0.3:
                service.ask("POST", "/_delete_by_query", {"query": {"ids": {"values": [passages[at].id]}}},
                            conflicts="proceed")  # fmt: skip
            else:
                text = f"{passages[at].text} {rng.choice(('ferry', 'lantern', 'quarry'))}"
                body = {"contents": f"{passages[at].title}\n{text}", "title": passages[at].title, "text": text}
                service.ask("PUT", f"/_doc/{passages[at].id}", {**body, order: at}, refresh="true")
        while number < 2 and told.recv() != "caught up":
            pass
        if number < 2:
            whole = time.perf_counter() - started
        time.sleep(max(0.0, rng.uniform(0, whole) - (time.perf_counter() - started)))  # killed at whatever it is doing
        process.kill()
        process.join()
        told.close()
    mirror = Mirror(service, tmp_path)
    assert mirror.catch_up().behind == 0
    forget_deleted(service)
    held = service.search({"size": 1000, "_source": ["text"]})["hits"]["hits"]
    wanted = {row["_id"]: row["_source"]["text"] for row in held}
    assert {passage.id: passage.text for passage in mirror.passages()} == wanted
    local, remote = open_mirror(tmp_path, PATIENT), OpenSearchEngine(service)
    assert [passage.text for passage in local.passages(list(wanted))] == list(wanted.values())
    queries = random_queries(500, passages, 4)
    for query, hits, ours in zip(
        queries, remote.search_many(queries, 5), local._local.search_many(queries, 5), strict=True
    ):
        assert list(ours) == hits, str(query)
    print(f"{kills} kills, {writes} writes, {len(wanted)} passages, 500 queries equal")


def test_a_mirror_of_another_index_is_refused(url, tmp_path) -> None:
    from orienteer.errors import MirrorError

    service = fresh(url, "replaced")
    load(service, bundled_passages()[:20], replicas=0)
    Mirror(service, tmp_path).catch_up()
    again = fresh(url, "replaced")
    load(again, bundled_passages()[:20], replicas=0)
    with pytest.raises(MirrorError, match="mirrors another index"):
        Mirror(again, tmp_path)


def played(engine: Any, questions: int, steps: int) -> list[Any]:
    """Steps of the shipped agent's sessions, with a stand-in for the reader."""
    from test_opensearch_engine import Reader

    from orienteer.agents import make_agent
    from orienteer.session import Environment, Settings, record, run_sessions

    entry = make_agent("pointer", engine, Settings(steps=steps))
    environment = Environment(engine, Reader(), entry.settings)
    run = run_sessions(environment, entry.agent, bundled_questions("train")[:questions])
    return [record(session, environment, entry.name).steps for session in run.sessions]


def test_sessions_of_the_shipped_agent_are_those_over_the_embedded_engine(service) -> None:
    assert played(OpenSearchEngine(service), 1, 2) == played(bundled_engine(), 1, 2)


def test_sessions_over_a_mirror_are_those_over_the_service(url, service, tmp_path) -> None:
    Mirror(service, tmp_path).catch_up()
    mirrored = open_mirror(tmp_path, PATIENT)
    assert played(mirrored, 3, 3) == played(bundled_engine(), 3, 3)
    searches = mirrored._engine._service.counters.searches
    assert searches < 60, "refinements were looked at in the mirror"
