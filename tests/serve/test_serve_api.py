"""What needs no session: search, why, lists, probes, metrics, logs."""

from __future__ import annotations

import logging

import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import MakeClient, Registered
from small_world import PASSAGES, Scripted, plus

from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.query import parse
from orienteer.serve import Limits
from orienteer.session import STOP


def test_search_gives_what_the_engine_gives(client: TestClient, engine: EmbeddedEngine) -> None:
    query = 'lamp tower -(title:"ardle")'
    result = client.post("/api/search", json={"query": query, "k": 4}).json()
    assert [(hit["id"], hit["score"]) for hit in result["hits"]] == list(engine.search(parse(query), 4))
    assert [hit["rank"] for hit in result["hits"]] == [1, 2, 3, 4]
    assert result["query"]["refinements"][0]["op"] == "-"


def test_a_query_that_cannot_be_read_is_refused_at_its_place(client: TestClient) -> None:
    refused = client.post("/api/search", json={"query": 'lamp "open'})
    assert refused.status_code == 422
    assert refused.json() == {"kind": "QuerySyntaxError", "message": 'an open quote; close it, or escape it as \\"',
                              "place": 5}  # fmt: skip


def test_why_tells_each_clauses_share_and_the_questions_own_rank(client: TestClient, engine: EmbeddedEngine) -> None:
    query = "keeper of the lamp (contents:storm^4)"
    why = client.post("/api/why", json={"query": query, "passage": "dunmore-1"}).json()
    explanation = engine.explain(parse(query), "dunmore-1")
    assert why["score"] == explanation.score
    assert sum(share["score"] for share in why["shares"]) == pytest.approx(explanation.score, abs=1e-5)
    ids = [hit.id for hit in engine.search(parse(query), 20)]
    plain = [hit.id for hit in engine.search(parse("keeper of the lamp"), 20)]
    assert why["rank"] == ids.index("dunmore-1") + 1
    assert why["question_rank"] == plain.index("dunmore-1") + 1


def test_why_for_an_engine_that_explains_nothing_still_ranks(make_client: MakeClient) -> None:
    client = make_client(engines={"plain": ReferenceEngine(PASSAGES)})
    why = client.post("/api/why", json={"query": "lamp", "passage": "brisk-1"}).json()
    assert why["rank"]
    assert why["explained"] in (False, True)


def test_an_unknown_passage_or_index_is_not_found(client: TestClient) -> None:
    assert client.post("/api/why", json={"query": "lamp", "passage": "nowhere"}).status_code == 404
    assert client.get("/api/passage", params={"id": "nowhere"}).status_code == 404
    unknown = client.post("/api/search", json={"query": "lamp", "index": "moon"})
    assert unknown.status_code == 404
    assert "lighthouses" in unknown.json()["message"]


def test_agents_and_indexes_are_listed(client: TestClient, engine: EmbeddedEngine) -> None:
    assert client.get("/api/indexes").json() == [
        {"name": "lighthouses", "passages": len(PASSAGES), "fingerprint": engine.fingerprint, "uploaded": False}
    ]
    names = [agent["name"] for agent in client.get("/api/agents").json()]
    assert "prf-idf-t" in names
    about = client.get("/api/about").json()
    assert about["examples"][0]["answers"] == ["Maren Holt"]


def test_several_indexes_are_told_apart(make_client: MakeClient, engine: EmbeddedEngine) -> None:
    client = make_client(engines={"all": engine, "few": ReferenceEngine(PASSAGES[:2])})
    body = {"question": "who lit the lamp", "steps": 0, "agent": "bm25+ps"}
    assert len(client.post("/api/sessions", json=body).json()["passages"]) == 5
    assert len(client.post("/api/sessions", json={**body, "index": "few"}).json()["passages"]) == 1


@pytest.mark.long
def test_health_readiness_and_metrics(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    client.post("/api/sessions", json={"question": "who lit the lamp", "steps": 2})
    metrics = client.get("/metrics").text
    assert 'orienteer_requests_total{method="POST",route="/api/sessions",status="200"} 1.0' in metrics
    assert 'orienteer_steps_total{by="agent"} 2.0' in metrics
    assert 'orienteer_batch_size_count{work="moves"} 3.0' in metrics


def test_a_dead_worker_is_told_by_readiness(make_client: MakeClient) -> None:
    client = make_client()
    client.app.state.shared.searches.close()  # type: ignore[attr-defined]
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200


@pytest.mark.long
def test_the_access_log_holds_no_query_unless_asked(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orienteer.access")
    body = {"question": "where is the secret lamp", "steps": 1}
    make_client().post("/api/sessions", json=body)
    assert "POST /api/sessions" in caplog.text
    assert "secret" not in caplog.text
    make_client().get("/api/gallery/sessions?agent=x&text=secret")
    assert "secret" not in caplog.text
    make_client(log_queries=True).post("/api/sessions", json=body)
    assert "where is the secret lamp" in caplog.text


@pytest.mark.long
def test_the_api_is_described_in_openapi_3_1_with_every_route(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    for path in ("/api/search", "/api/sessions", "/api/sessions/{id}/refine", "/api/why", "/health", "/metrics"):
        assert path in described["paths"]


def test_the_page_and_its_files_are_served_and_name_no_other_host(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    folder = "src/orienteer/serve/page"
    for name in ("app.js", "views.js", "style.css"):
        text = client.get(f"/page/{name}").text
        assert text, folder
        assert "https://" not in text
    assert client.get("/page/../app.py").status_code == 404


@pytest.mark.long
def test_a_reader_that_fails_is_an_error_for_its_own_client_only(make_client: MakeClient) -> None:
    class Moody(LexicalReader):
        def read_many(self, batch):  # type: ignore[no-untyped-def]
            if any("storm" in question for question, _ in batch):
                raise RuntimeError("no storms today")
            return super().read_many(batch)

    client = make_client(reader=Moody())
    assert client.post("/api/sessions", json={"question": "the storm", "steps": 1}).status_code == 500
    assert client.post("/api/sessions", json={"question": "the lamp", "steps": 1}).status_code == 200


def test_more_passages_than_the_server_gives_are_refused_not_cut(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(k=3))
    assert len(client.post("/api/search", json={"query": "lamp", "k": 3}).json()["hits"]) == 3
    refused = client.post("/api/search", json={"query": "lamp", "k": 4})
    assert refused.status_code == 422
    assert "3 passages" in refused.json()["message"]


def test_an_agent_registered_while_the_server_runs_is_listed_and_plays(
    client: TestClient, registered: Registered
) -> None:
    def make(engine: EmbeddedEngine, term: str = "lamp", top: int = 1) -> Scripted:
        return Scripted(*[plus(term), STOP][:top])

    name = registered(make)
    listed = {agent["name"]: agent["about"] for agent in client.get("/api/about").json()["agents"]}
    assert listed[name] == "registered by a test"
    body = {"question": "who keeps the tower", "steps": 1, "agent": f"{name}[top=2;hits=3]"}
    session = client.post("/api/sessions", json=body).json()
    assert [step["action"] for step in session["steps"]] == [None, '+(contents:"lamp")']
    assert len(session["steps"][0]["hits"]) == 3


def test_an_agent_that_searches_by_answers_is_played_only_with_answers(make_client: MakeClient) -> None:
    body = {"question": "who lit the lamp", "steps": 1, "agent": "rocchio-G1"}
    refused = make_client().post("/api/sessions", json=body)
    assert refused.status_code == 422
    assert "known answers" in refused.json()["message"]
    assert make_client().post("/api/sessions", json={**body, "answers": ["the keeper"]}).status_code == 200


@pytest.mark.parametrize("agent", ["from-outside[term=tower]", "ensemble[members=pointer=/etc]"])
def test_a_text_option_of_an_agent_is_given_where_the_server_starts_only(
    make_client: MakeClient, registered: Registered, agent: str
) -> None:
    def make(engine: EmbeddedEngine, term: str = "lamp") -> Scripted:
        return Scripted(plus(term))

    name = registered(make)
    body = {"question": "who keeps the tower", "steps": 1, "agent": agent}
    refused = make_client().post("/api/sessions", json=body)
    assert refused.status_code == 422
    assert "--agent" in refused.json()["message"]
    if agent.startswith(name):
        assert make_client(agents=[agent]).post("/api/sessions", json=body).status_code == 200
