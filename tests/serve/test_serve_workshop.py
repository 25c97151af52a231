"""The workshop's routes give what the workshop gives."""

from __future__ import annotations

import json

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
    ranked = client.post("/api/workshop/find-query", json={"relevant": wanted, "clauses": 3, "objective": "ap"}).json()
    best = find_query(engine, wanted, clauses=3, objective="ap").best
    assert (ranked["best"]["lucene"], ranked["best"]["value"]) == (best.lucene, best.quality.value)


def test_find_query_refuses_what_it_cannot_search(client: TestClient) -> None:
    route = "/api/workshop/find-query"
    assert client.post(route, json={"relevant": ["nowhere"]}).status_code == 404
    assert client.post(route, json={"relevant": []}).status_code == 422
    luck = client.post(route, json={"relevant": ["brisk-1"], "objective": "luck"})
    assert luck.status_code == 422
    assert "expected f, description, ap" in luck.json()["message"]
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


def test_a_streamed_find_query_tells_the_best_query_of_each_length_and_what_it_misses(
    client: TestClient, engine: EmbeddedEngine
) -> None:
    wanted = ["ardle-1", "brisk-2", "corran-2"]
    text = client.post(
        "/api/workshop/find-query", json={"relevant": wanted}, headers={"accept": "text/event-stream"}
    ).text  # fmt: skip
    events = [part.split("\n") for part in text.strip().split("\n\n") if part.startswith("event")]
    names = [name.removeprefix("event: ") for name, _ in events]
    found = [json.loads(data.removeprefix("data: ")) for _, data in events]
    assert names[-1] == "end"
    assert set(names[:-1]) == {"found"}
    assert [len(each["query"]["clauses"]) for each in found[:-1]] == list(range(1, len(found)))
    assert found[-1]["best"] in [each["query"] for each in found[:-1]]
    for each in found[:-1]:
        hits = {hit.id for hit in engine.search(parse(each["query"]["lucene"]), 12)}
        assert each["missed"] == [id for id in wanted if id not in hits]


def test_tuning_takes_judged_questions_and_gives_curves(client: TestClient) -> None:
    judged = [{"question": f"lamp keeper {n}", "judgements": {"ardle-1": 1}} for n in range(6)]
    told = client.post("/api/workshop/tune", json={"judged": judged}).json()
    assert told["questions"] == 6
    assert set(told["curves"]) >= {"k1", "b", "title_weight", "phrase_weight"}
    few = client.post("/api/workshop/tune", json={"judged": judged[:2]})
    assert few.status_code == 422
    assert "expected 5 or more" in few.json()["message"]


def test_what_thumbs_teach_is_used_only_after_it_is_switched_on(client: TestClient) -> None:
    asked = {"query": "whale lamp", "learned": True}
    assert client.post("/api/workshop/learn/switch", json={"on": True}).status_code == 409
    assert client.post("/api/search", json=asked).status_code == 409
    for question, id in (
        ("lamp keeper", "ardle-1"), ("red tower", "ardle-2"), ("whale oil", "brisk-1"), ("foghorn", "brisk-2"),
        ("ship reef", "corran-2"),
    ):  # fmt: skip
        client.post("/api/workshop/thumbs", json={"question": question, "passage": id, "thumb": 1})
    proposal = client.post("/api/workshop/learn").json()
    assert proposal["on"] is False
    assert set(proposal["estimates"]) == {"refit", "synonyms", "boosts", "all"}
    assert all(each["low"] <= each["high"] for each in proposal["estimates"].values())
    assert client.post("/api/workshop/learn/switch", json={"on": True}).json() == {"on": True}
    assert client.post("/api/search", json=asked).json()["hits"][0]["id"] == "brisk-1"
    assert client.post("/api/workshop/learn/switch", json={"on": False}).json() == {"on": False}
    assert client.post("/api/search", json=asked).status_code == 409
