"""The gallery: an evaluation's figures and sessions, filtered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import MakeClient
from small_world import HARD_QUESTIONS, QUESTIONS, Wanderer

from orienteer.agents import ConfiguredAgent
from orienteer.engine import EmbeddedEngine
from orienteer.evaluation import evaluate
from orienteer.serve.errors import NoGalleryError
from orienteer.serve.gallery import Gallery, kind_of
from orienteer.session import Settings, read_records


@pytest.fixture(scope="session")
def evaluated(engine: EmbeddedEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    wanderer = ConfiguredAgent("wanderer", Wanderer(), Settings(steps=4))
    questions = [*QUESTIONS, *HARD_QUESTIONS]
    evaluate(engine, LexicalReader(), questions, ["bm25", wanderer], folder, settings=Settings(steps=4), figures=False)
    return folder


@pytest.fixture
def client(make_client: MakeClient, evaluated: Path) -> TestClient:
    return make_client(evaluation=evaluated)


def test_the_figures_are_the_reports(client: TestClient, evaluated: Path) -> None:
    gallery = client.get("/api/gallery").json()
    metrics = json.loads((evaluated / "metrics.json").read_text())
    assert gallery["agents"] == {name: metrics[name] for name in ("bm25", "wanderer")}
    assert gallery["questions"] == len(QUESTIONS) + len(HARD_QUESTIONS)
    assert "Top-5" in [measure["name"] for measure in gallery["measures"]]


def test_sessions_are_filtered_by_kind_operator_and_words(client: TestClient, evaluated: Path) -> None:
    records = list(read_records(evaluated / "sessions" / "wanderer.jsonl"))
    everything = client.get("/api/gallery/sessions", params={"agent": "wanderer"}).json()
    assert everything["found"] == len(records)
    for kind, count in everything["kinds"].items():
        page = client.get("/api/gallery/sessions", params={"agent": "wanderer", "kind": kind}).json()
        expected = [record.question.id for record in records if kind_of(record) == kind]
        assert [row["id"] for row in page["rows"]] == expected
        assert page["found"] == count
    for operator, count in everything["operators"].items():
        page = client.get("/api/gallery/sessions", params={"agent": "wanderer", "operator": operator}).json()
        assert page["found"] == count
        assert all(operator in row["operators"] for row in page["rows"])
    page = client.get("/api/gallery/sessions", params={"agent": "wanderer", "text": "Reef LAMP"}).json()
    assert all("reef" in row["question"].lower() for row in page["rows"])
    assert page["found"] < len(records)


def test_a_page_at_a_time(client: TestClient) -> None:
    params = {"agent": "wanderer", "limit": 4}
    numbers = [
        row["number"]
        for offset in range(0, 20, 4)
        for row in client.get("/api/gallery/sessions", params={**params, "offset": offset}).json()["rows"]
    ]
    assert numbers == list(range(len(QUESTIONS) + len(HARD_QUESTIONS)))


def test_a_session_of_the_gallery_opens_and_can_be_continued(client: TestClient) -> None:
    opened = client.post("/api/gallery/open", params={"agent": "wanderer", "number": 1})
    assert opened.status_code == 201
    session = opened.json()
    assert session["question"] == QUESTIONS[1].question
    assert session["playable"]
    more = client.post(f"/api/sessions/{session['id']}/refine", json={"op": "or", "term": "visitors"})
    assert more.status_code in (200, 422), more.text


def test_a_gallery_that_is_not_there_says_how_to_have_one(make_client: MakeClient, tmp_path: Path) -> None:
    refused = make_client().get("/api/gallery")
    assert refused.status_code == 404
    assert "--evaluation" in refused.json()["message"]
    with pytest.raises(NoGalleryError, match="no finished evaluation"):
        Gallery(tmp_path)


def test_what_the_gallery_does_not_hold_is_not_found(client: TestClient) -> None:
    assert client.get("/api/gallery/sessions", params={"agent": "nobody"}).status_code == 404
    assert client.post("/api/gallery/open", params={"agent": "bm25", "number": 999}).status_code == 404


def test_one_bad_record_is_left_out_and_the_others_are_shown(
    make_client: MakeClient, evaluated: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(evaluated, copy)
    file = copy / "sessions" / "wanderer.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    hostile = [b"{}\n", b"[" * 10_000 + b"\n", b"\xff\n", lines[0].replace(b'"steps":', b'"steps":7,"x":')]
    file.write_bytes(b"".join([hostile[0], lines[0], *hostile[1:], *lines[1:]]))
    metrics = json.loads((copy / "metrics.json").read_text())
    (copy / "metrics.json").write_text(
        json.dumps({**metrics, "odd": 7, "list": [1], "bm25": {"Top-5": "many"}, "_run": []})
    )
    client = make_client(evaluation=copy)
    gallery = client.get("/api/gallery")
    assert gallery.status_code == 200
    assert list(gallery.json()["agents"]) == ["wanderer"]
    page = client.get("/api/gallery/sessions", params={"agent": "wanderer", "limit": 100}).json()
    assert [row["number"] for row in page["rows"]] == list(range(len(lines)))
    for number in (0, 1, len(lines) - 1):
        opened = client.post("/api/gallery/open", params={"agent": "wanderer", "number": number}).json()
        assert opened["question"] == page["rows"][number]["question"]
