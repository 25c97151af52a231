"""The workshop's routes give what the workshop gives."""

from __future__ import annotations

from fastapi.testclient import TestClient

from orienteer.engine import EmbeddedEngine
from orienteer.query import parse
from orienteer.workshop.find_query import find_query
from orienteer.workshop.why_not import as_dict, why_not


def test_why_not_gives_what_the_workshop_gives(client: TestClient, engine: EmbeddedEngine) -> None:
    query = "keeper of the lamp"
    last = list(engine.search(parse(query), 100))[-1].id
    body = {"query": query, "passage": last, "k": 2}
    result = client.post("/api/workshop/why-not", json=body)
    assert result.status_code == 200
    expected = as_dict(why_not(engine, parse(query), last, k=2))
    assert result.json()["edits"] == expected["edits"]
    assert result.json()["rank"] == expected["rank"] > 2


def test_why_not_refuses_what_it_cannot_explain(client: TestClient) -> None:
    route = "/api/workshop/why-not"
    assert client.post(route, json={"query": "lamp", "passage": "nowhere"}).status_code == 404
    kept = client.post(route, json={"query": "lamp", "passage": "brisk-1", "k": 1, "keep": ["nowhere"]})
    assert kept.status_code == 422
    assert "cannot keep" in kept.json()["message"]
    assert client.post(route, json={"query": 'lamp "open', "passage": "brisk-1"}).status_code == 422


def test_find_query_gives_what_the_workshop_gives(client: TestClient, engine: EmbeddedEngine) -> None:
    wanted = [hit.id for hit in engine.search(parse("keeper of the lamp"), 3)]
    result = client.post("/api/workshop/find-query", json={"relevant": wanted, "clauses": 3})
    assert result.status_code == 200
    expected = find_query(engine, wanted, clauses=3)
    assert result.json()["best"]["lucene"] == expected.best.lucene
    assert result.json()["best"]["f"] == expected.best.quality.f
    assert len(result.json()["front"]) == len(expected.front)


def test_find_query_refuses_what_it_cannot_search(client: TestClient) -> None:
    route = "/api/workshop/find-query"
    assert client.post(route, json={"relevant": ["nowhere"]}).status_code == 404
    assert client.post(route, json={"relevant": []}).status_code == 422
    both = client.post(route, json={"relevant": ["brisk-1"], "not_relevant": ["brisk-1"]})
    assert both.status_code == 422
    assert "as not relevant" in both.json()["message"]


def test_thumbs_are_kept_listed_and_taken_back(client: TestClient) -> None:
    route = "/api/workshop/thumbs"
    for thumb in (1, -1):
        body = {"question": "who keeps the lamp", "passage": "brisk-1", "thumb": thumb}
        assert client.post(route, json=body).status_code == 200
    rows = [row for row in client.get(route).json() if row["question"] == "who keeps the lamp"]
    assert rows == [{"question": "who keeps the lamp", "passage": "brisk-1", "thumb": -1}]
    client.post(route, json={"question": "who keeps the lamp", "passage": "brisk-1", "thumb": 0})
    assert not [row for row in client.get(route).json() if row["question"] == "who keeps the lamp"]
    assert client.post(route, json={"question": "x", "passage": "nowhere", "thumb": 1}).status_code == 404
    assert client.post(route, json={"question": "x", "passage": "brisk-1", "thumb": 2}).status_code == 422
