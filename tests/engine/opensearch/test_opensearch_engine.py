"""The engine over a service: the contract, Lucene's answers to the bit, and indexes that others made."""

from __future__ import annotations

import json
import lzma
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orienteer.bundled import bundled_engine, bundled_passages, bundled_questions
from orienteer.data import read_passages
from orienteer.data.passage import Passage, Question
from orienteer.engine.adapters.opensearch import FieldNames, OpenSearchEngine, ServiceSettings, connect
from orienteer.engine.adapters.opensearch.bulk_load import bulk_settings, load
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.engine.check import check_engine
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.open import open_engine
from orienteer.engine.protocol import Hit
from orienteer.errors import ServiceAnswerError, ServiceIndexError, UnknownFieldError, UnknownPassageError
from orienteer.query import FIELDS, G4, Query, Refinement, parse

# A real server is of one flavour only, whatever is asked for.
FLAVOURS = [("opensearch-3", 2), ("opensearch-2", 1), ("elasticsearch-9", 3), ("elasticsearch-8", 1)]
FLAVOURS = FLAVOURS[1:3] if os.environ.get("ORIENTEER_TEST_SERVER") else FLAVOURS


def loaded(double: Any, passages: Sequence[Passage], shards: int = 1, name: str = "passages") -> OpenSearchEngine:
    address = f"{double.base}/{name}"
    service = Service(read_address(address), bulk_settings(ServiceSettings()))
    load(service, passages, shards=shards)
    service.close()
    return connect(address, ServiceSettings(timeout=600))  # the machine may be busy: no test here is of timeouts


@pytest.fixture(scope="module", params=FLAVOURS, ids=[flavour for flavour, _ in FLAVOURS])
def golden(request, start, golden_passages) -> OpenSearchEngine:
    flavour, shards = request.param
    if flavour == "elasticsearch-9":
        pytest.importorskip("elasticsearch")
    return loaded(start(flavour), golden_passages, shards)


def test_every_flavour_of_service_gives_lucenes_answers_to_the_bit(golden, golden_answers) -> None:
    answers = golden.search_many([query for query, _ in golden_answers], 5)
    for (query, hits), came in zip(golden_answers, answers, strict=True):
        assert came == hits, str(query)


def test_idf_is_the_embedded_engines(golden, golden_passages, tmp_path) -> None:
    from orienteer.engine.embedded.build import build_index
    from orienteer.engine.embedded.engine import open_index

    build_index(golden_passages, tmp_path, threads=1)
    embedded = open_index(tmp_path)
    terms = {term for passage in golden_passages[:20] for term in analyze(passage.contents)}
    for field in FIELDS:
        for term in [*sorted(terms), "absent", "no such term"]:
            assert golden.idf(field, term) == embedded.idf(field, term), (field, term)
    with pytest.raises(UnknownFieldError, match="'body'"):
        golden.idf("body", "river")


@pytest.mark.parametrize(("flavour", "shards"), [("opensearch-3", 2), ("elasticsearch-9", 1)])
def test_the_engine_keeps_the_contract(start, golden_passages, flavour, shards) -> None:
    if flavour == "elasticsearch-9":
        pytest.importorskip("elasticsearch")
    check_engine(loaded(start(flavour), golden_passages, shards), golden_passages[:40], k=3)


@pytest.fixture(scope="module")
def bundled(start) -> OpenSearchEngine:
    return loaded(start(), bundled_passages(), shards=3)


def test_searches_and_refinements_are_the_embedded_engines(bundled) -> None:
    embedded, rng = bundled_engine(), random.Random(3)
    words = [term for passage in bundled_passages() for term in analyze(passage.contents)]

    def refinement() -> Refinement:
        at = rng.randrange(len(words) - 2)
        term = " ".join(words[at : at + rng.choice([1, 1, 1, 2])])
        return rng.choice(list(G4.refinements(rng.choice(FIELDS), term)))

    queries = [
        Query(question.question, tuple(refinement() for _ in range(rng.randint(0, 4))))
        for question in rng.sample(bundled_questions("train"), 120)
    ]
    assert bundled.search_many(queries, 10) == [list(hits) for hits in embedded.search_many(queries, 10)]
    candidates = [[refinement() for _ in range(60)] for _ in range(6)]
    came = bundled.refine_many(queries[:6], candidates, 5)
    assert came == [[list(hits) for hits in lists] for lists in embedded.refine_many(queries[:6], candidates, 5)]


class Reader:
    """A stand-in reader: PS is the share of the question's words in the passage."""

    fingerprint = "stand-in"

    def read(self, question: str, passages: Sequence[Passage]) -> list[Any]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Any]]:
        from orienteer.reader.protocol import Reading

        readings = []
        for question, passages in batch:
            asked, rows = set(analyze(question)), []
            for passage in passages:
                score = (1 + len(asked & set(analyze(passage.contents)))) / (2 + len(asked))
                end = passage.text.find(" ", 20)
                rows.append(Reading(score, float(np.log(score / (1 - score))), passage.text[:end], 0, end))
            readings.append(rows)
        return readings


@pytest.mark.parametrize("agent", ["prf-idf-t", "prf-idf^4", "prf-answer"])
def test_a_session_is_the_same_step_by_step_on_both_engines(bundled, agent) -> None:
    from orienteer.agents import make_agent
    from orienteer.session import Environment, Settings, record, run_sessions

    questions = [Question(q.id, q.question) for q in bundled_questions("train")[:4]]
    steps = []
    for engine in (bundled_engine(), bundled):
        entry = make_agent(agent, engine, Settings(steps=5))
        environment = Environment(engine, Reader(), entry.settings)
        run = run_sessions(environment, entry.agent, questions)
        steps.append([record(session, environment, entry.name).steps for session in run.sessions])
    assert steps[0] == steps[1]
    assert sum(map(len, steps[0])) > 12


def test_ask_with_the_shipped_agent_and_reader_is_the_same_step_by_step_on_both_engines(
    bundled, monkeypatch, capsys
) -> None:
    """The command itself, with all its defaults: over a service and over the bundled corpus's own index.

    Of questions without typing errors: a service is not asked for the nearest terms of a word that no passage has.
    """
    from orienteer import cli
    from orienteer.session.spelling import corrections

    monkeypatch.setenv("ORIENTEER_SEARCH_TIMEOUT", "600")  # the machine may be busy
    address = bundled._service.address
    spelled = (each for each in bundled_questions("train")[5:] if not corrections(bundled_engine(), each.question))
    for question in islice(spelled, 2):
        records = []
        for where in ([], ["--index", str(address)]):
            monkeypatch.setattr(sys, "argv", ["orienteer", "ask", question.question, *where, "--json"])
            cli.app(standalone_mode=False)
            records.append(json.loads(capsys.readouterr().out))
        assert len(records[0]["steps"]) > 3
        assert records[0].pop("index") != records[1].pop("index"), "two engines were asked"
        assert records[0] == records[1]


def test_many_threads_may_share_the_engine(bundled) -> None:
    queries = [Query(question.question) for question in bundled_questions("train")[:24]]
    wanted = bundled.search_many(queries, 5)
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda query: bundled.search(query, 5), queries)) == wanted


def test_passages_come_in_the_order_asked_and_an_unknown_id_is_named(bundled) -> None:
    passages = bundled_passages()
    wanted = [passages[at] for at in (500, 3, 3, 800)]
    assert bundled.passages([passage.id for passage in wanted]) == wanted
    with pytest.raises(UnknownPassageError, match="'no such id'"):
        bundled.passages([passages[0].id, "no such id"])


def test_more_hits_than_a_service_gives_are_refused(bundled) -> None:
    assert len(bundled.search(Query("the comet"), 10_000)) > 5
    with pytest.raises(ServiceAnswerError, match="at most 10,000"):
        bundled.search(Query("comet"), 10_001)


def test_searches_go_in_batches_and_no_more_at_once_than_allowed(start) -> None:
    double = start()
    loaded(double, bundled_passages()[:50]).close()
    settings = ServiceSettings(batch=16, concurrency=3)
    engine = connect(f"{double.base}/passages", settings)
    double.seen.clear()
    double.most_under_way = 0
    refinements = [Refinement("^", "contents", f"word{n}", 2.0) for n in range(160)]
    engine.refine(Query("comet rover"), refinements, 5)
    asked = double.requests("_msearch")
    assert len(asked) == 10
    assert [len(seen.lines) // 2 for seen in asked] == [16] * 10
    assert 1 < double.most_under_way <= 3


def test_idf_of_many_terms_takes_one_request_a_shard_and_no_search(start) -> None:
    double = start()
    engine = loaded(double, bundled_passages()[:50], shards=3)
    terms = {term for passage in bundled_passages()[:20] for term in engine.analyze(passage.contents)}
    double.seen.clear()
    for term in terms:
        engine.idf("contents", term)
    assert len(terms) > 600
    assert len(double.requests("_termvectors")) == 3
    assert double.requests("_msearch") == []


def test_idf_is_counted_by_searches_where_the_dictionary_is_not_to_be_had(start) -> None:
    """It knows nothing of a filter; a user may not see it; a service may not have it."""
    from double import Fault

    double = start()
    engine = loaded(double, bundled_passages()[:50])
    terms = list(dict.fromkeys(engine.analyze(bundled_passages()[3].contents)))
    wanted = [engine.idf("contents", term) for term in terms]
    address = str(engine._service.address)
    for fault in ("echo", "json", None):
        filtered = ServiceSettings(timeout=600, filter=None if fault else '{"match_all": {}}')
        other = connect(address, filtered)
        other.analyze(bundled_passages()[3].contents)
        double.seen.clear()
        double.faults = [Fault(fault, path="_termvectors")] if fault else []
        assert [other.idf("contents", term) for term in terms] == wanted
        assert len(double.requests("_msearch")) == 1 + (len(terms) - 1) // 64


def test_equal_scores_come_in_the_order_of_indexing_however_the_service_has_them(start) -> None:
    passages = [Passage(f"p{n}", "", "the same words") for n in range(40)] + [Passage("q", "", "other words")]
    double = start()
    engine = loaded(double, passages, shards=4)
    assert [hit.id for hit in engine.search(Query("same"), 25)] == [f"p{n}" for n in range(25)]
    assert [hit.id for hit in engine.search(Query("same"), 40)] == [f"p{n}" for n in range(40)]
    settings = ServiceSettings(names=FieldNames(order="no such field"))
    unordered = connect(f"{double.base}/passages", settings)
    assert [hit.id for hit in unordered.search(Query("same"), 40)] != [f"p{n}" for n in range(40)]


# Indexes that others made.


def made(double: Any, name: str, analyzer: dict[str, Any] | str, documents: Sequence[dict[str, Any]]) -> str:
    """An index with the fields `head` and `body`, as somebody else may have it."""
    field: dict[str, Any] = {"type": "text"}
    settings: dict[str, Any] = {"number_of_shards": "2"}
    if isinstance(analyzer, str):
        field["analyzer"] = analyzer
    else:
        field["analyzer"], settings["analysis"] = "own", {"analyzer": {"own": analyzer}}
    service = Service(read_address(f"{double.base}/{name}"), ServiceSettings())
    service.ask(
        "PUT", "", {"settings": {"index": settings}, "mappings": {"properties": {"head": field, "body": field}}}
    )
    service.create([(str(number), document) for number, document in enumerate(documents)])
    service.ask("POST", "/_refresh")
    return f"{double.base}/{name}"


DOCUMENTS = [
    {"head": "Running rivers", "body": "The rivers of the north are running to the sea."},
    {"head": "Bridges", "body": "A bridge over running water. Engineers build bridges."},
    {"body": "The sea has no bridges 🌊 and no rivers."},
    {"head": "The of", "body": "Ships sail on the sea."},
]
THEIRS = ServiceSettings(names=FieldNames("body", "head", "body"))


def test_an_index_that_keeps_stop_words_is_searched_without_them(start) -> None:
    engine = connect(made(start(), "kept", "standard", DOCUMENTS), THEIRS)
    assert engine.analyze("The rivers of the north") == ["rivers", "north"]
    assert {hit.id for hit in engine.search(Query("the rivers"), 5)} == {"0", "2"}
    assert engine.search(Query("the of"), 5) == []
    assert engine.passages(["1", "2"]) == [
        Passage("1", "Bridges", DOCUMENTS[1]["body"]), Passage("2", "", DOCUMENTS[2]["body"]),
    ]  # fmt: skip
    assert engine.fingerprint == f"index-{engine.info.uuid}" != "index-"


def test_an_index_with_an_analyser_of_its_own_is_asked_for_its_terms(start) -> None:
    double = start()
    engine = connect(made(double, "stemmed", "english", DOCUMENTS), THEIRS)
    assert engine.analyze("The Rivers were running") == ["river", "were", "run"]
    assert engine.analyze("") == []
    assert {hit.id for hit in engine.search(Query("river run"), 5)} == {"0", "1", "2"}
    assert [hit.id for hit in engine.search(parse('+(contents:"running bridges")'), 5)] == []
    assert [hit.id for hit in engine.search(parse('+(contents:"builds bridge")'), 5)] == ["1"]
    assert [hit.id for hit in engine.search(parse('sea -(title:"runs")'), 5)] == ["3", "2"]
    query, refinements = (
        Query("sea"),
        [Refinement("+", "contents", term) for term in ("Bridge", "the", "🌊 rivers", "ships")],
    )
    assert engine.refine(query, refinements, 5) == [engine.search(query.refine(r), 5) for r in refinements]
    asked = len(double.requests("_analyze"))
    engine.refine(query, refinements, 5)
    assert len(double.requests("_analyze")) == asked


def test_without_global_statistics_shards_would_score_differently(start) -> None:
    """That `dfs_query_then_fetch` is asked for matters: the double gives other scores without it."""
    double = start()
    engine = loaded(double, bundled_passages()[:60], shards=4)
    index = double.indexes["passages"]
    common, _ = Counter(term for p in bundled_passages()[:60] for term in set(analyze(p.text))).most_common(1)[0]
    body = {"query": engine._builder.build(Query(common)), "size": 5}  # with the boost that undoes a server's factor
    scores = [[hit["_score"] for hit in index.search(body, kind)["hits"]["hits"]]
              for kind in ("dfs_query_then_fetch", "query_then_fetch")]  # fmt: skip
    assert scores[0] != scores[1]
    assert [np.float32(hit.score) for hit in engine.search(Query(common), 5)] == [np.float32(s) for s in scores[0]]


def test_an_index_that_cannot_be_searched_is_refused(start) -> None:
    double = start()
    with pytest.raises(ServiceIndexError, match=r"no index 'nothing' at .*orienteer index PASSAGES --to"):
        connect(f"{double.base}/nothing")
    address = made(double, "theirs", "standard", DOCUMENTS)
    with pytest.raises(ServiceIndexError, match=r"no text field 'contents' to search; it has body, head; .*FIELDS"):
        connect(address)


def test_an_index_without_a_title_or_without_passages_is_searched_all_the_same(start) -> None:
    double = start()
    engine = connect(
        made(double, "bare", "standard", DOCUMENTS), ServiceSettings(names=FieldNames("body", "none", "body"))
    )
    assert engine.search(parse('sea +(title:"running")'), 5) == []
    assert engine.idf("title", "running") > 0
    empty = connect(made(double, "empty", "standard", []), THEIRS)
    assert empty.search(Query("sea"), 5) == []
    assert empty.idf("contents", "sea") > 0


def test_an_address_opens_the_engine(start) -> None:
    double = start()
    loaded(double, bundled_passages()[:20]).close()
    for address in (f"{double.base}/passages", Path(f"{double.base}/passages")):
        engine = open_engine(address)
        assert isinstance(engine, OpenSearchEngine)
        assert len(engine.search(Query("the planet"), 3)) <= 3


# A real corpus, and Lucene's own answers on it.


def encyclopedia_lucene() -> int:
    """The major version of Lucene that answers."""
    if product := os.environ.get("ORIENTEER_TEST_SERVER"):
        return {"opensearch-3": 10, "opensearch-2": 9, "elasticsearch-7": 8}[product.partition(":")[0]]
    import jpype

    return int(jpype.JClass("org.apache.lucene.util.Version").LATEST.major)


@pytest.fixture(scope="module")
def encyclopedia(start, shared_data: Path) -> OpenSearchEngine:
    file = shared_data / "data/passages/passages-0.jsonl.xz"
    if not file.is_file():
        pytest.skip(f"needs the passages {file.name} in the folder {shared_data.name}/ beside the project's own")
    return loaded(start("elasticsearch-9"), list(read_passages([file])), shards=2)


@pytest.mark.slow
def test_every_parity_row_has_lucenes_ids_order_and_scores(encyclopedia, shared_data) -> None:
    """The rows are of Lucene 9; Lucene 8 cuts a few words of this corpus in another way, and one row's scores move."""
    exact = encyclopedia_lucene() >= 9
    with lzma.open(shared_data / "oracle/lucene-parity.jsonl.xz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = [json.loads(line) for line in lines]
    answers = encyclopedia.search_many([parse(row["query"]) for row in rows], 5)
    same = 0
    for row, hits in zip(rows, answers, strict=True):
        wanted = [Hit(id, float(np.float32(score))) for id, score in row["hits"]]
        assert [hit.id for hit in hits] == [hit.id for hit in wanted], row["query"]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], rel=1e-3), row["query"]
        same += hits == wanted
    assert same >= (len(rows) if exact else len(rows) - 2)
