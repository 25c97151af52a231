"""Files dropped on the server: safe names, limits, an index built beside the server, unreadable files named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from serving_world import MakeClient

sys.path.insert(0, str(Path(__file__).parent.parent / "data"))

from orienteer.serve.uploads import UploadLimits, safe_name

LAMP = b"# Lamps\n\nThe lamp on Skerry Rock was lit by Signe Berg in the year 1903.\n"


def drop(client: TestClient, files: dict[str, bytes], name: str = "mine") -> Any:
    """Sends the files as the page does; the events of the build."""
    wanted = [{"name": each, "size": len(data)} for each, data in files.items()]
    begun = client.post("/api/uploads", json={"name": name, "files": wanted})
    assert begun.status_code == 201, begun.text
    upload = begun.json()
    for number, (stored, data) in enumerate(zip(upload["files"], files.values(), strict=True)):
        for offset in range(0, 0 if stored["reason"] else len(data), 1000):
            sent = client.put(
                f"/api/uploads/{upload['id']}/files/{number}?offset={offset}", content=data[offset : offset + 1000]
            )
            assert sent.status_code == 200, sent.text
    text = client.post(f"/api/uploads/{upload['id']}/build").text
    parts = [part.split("\n") for part in text.strip().split("\n\n") if part.startswith("event")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def test_dropped_files_become_an_index_that_answers_at_once(make_client: MakeClient) -> None:
    client = make_client(uploads="temporary")
    events = drop(client, {"notes/lamps.md": LAMP, "more.txt": b"Nothing to see here, only waves and wind.\n" * 60})
    assert [name for name, _ in events][-1] == "end"
    assert {name for name, _ in events[:-1]} == {"progress"}
    built = events[-1][1]
    assert (built["index"], built["unreadable"]) == ("mine", [])
    hits = client.post("/api/search", json={"query": "skerry lamp", "index": "mine"}).json()["hits"]
    assert hits[0]["source"].startswith("notes/lamps.md")
    asked = client.post("/api/sessions", json={"question": "who lit the lamp", "index": "mine", "agent": "bm25+ps"})
    assert "Signe Berg" in asked.json()["passages"][asked.json()["steps"][0]["best"][0]]["text"]
    about = client.get("/api/about").json()
    assert [each["uploaded"] for each in about["indexes"]] == [False, True]
    assert client.get("/api/examples?index=mine").json()[0]["question"].startswith("what is")


def test_unreadable_files_are_named_with_reasons_and_do_not_stop_the_rest(make_client: MakeClient) -> None:
    client = make_client(uploads="temporary")
    files = {
        "a.md": LAMP, "broken.pdf": b"%PDF-1.4 nothing", "movie.mp4": b"0000", ".hidden.txt": b"x", "empty.txt": b"",
        "rows.jsonl": b'{"id": "r1", "title": "Rows", "text": "A row about the reef."}\nnot json\n',
    }  # fmt: skip
    _, built = drop(client, files)[-1]
    reasons = {each["file"]: each["reason"] for each in built["unreadable"]}
    assert set(reasons) == {"broken.pdf", "movie.mp4", "hidden.txt", "empty.txt", "rows.jsonl"}
    assert "broken" in reasons["broken.pdf"]
    assert "unknown type .mp4" in reasons["movie.mp4"]
    assert "1 of its rows" in reasons["rows.jsonl"]
    hits = client.post("/api/search", json={"query": "reef", "index": "mine"}).json()["hits"]
    assert [hit["id"] for hit in hits] == ["r1"]


def test_files_of_which_none_can_be_read_are_an_error_that_says_why(make_client: MakeClient) -> None:
    client = make_client(uploads="temporary")
    name, problem = drop(client, {"broken.pdf": b"%PDF-1.4 nothing"})[-1]
    assert name == "error"
    assert "broken.pdf" in problem["message"]
    assert len(client.get("/api/indexes").json()) == 1


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("C:\\Users\\me\\a.pdf", "C_/Users/me/a.pdf"), ("/abs/./b.txt", "abs/b.txt"),
        ("...", "file"), ("a\x1b[31m.txt", "a_[31m.txt"), ("a\u202etxt.exe", "a_txt.exe"), ("x" * 300 + ".pdf", None),
    ],
)  # fmt: skip
def test_names_are_made_safe(raw: str, safe: str | None) -> None:
    found = safe_name(raw)
    assert found == safe if safe is not None else (len(found) <= 100 and found.endswith(".pdf"))


@given(st.text(max_size=400))
def test_no_name_leaves_its_folder(raw: str) -> None:
    found = safe_name(raw)
    parts = found.split("/")
    assert found
    assert not found.startswith("/")
    assert all(part and part not in (".", "..") and not part.startswith(".") for part in parts)
    assert len(parts) <= 6
    assert all(len(part.encode()) <= 100 for part in parts)
    assert "\x00" not in found
    assert "\\" not in found


def test_counts_and_sizes_are_limited(make_client: MakeClient) -> None:
    limits = UploadLimits(files=2, file=100, total=150, indexes=1)
    client = make_client(uploads="temporary", upload_limits=limits)

    def begin(*sizes: int) -> Any:
        files = [{"name": f"{n}.txt", "size": size} for n, size in enumerate(sizes)]
        return client.post("/api/uploads", json={"files": files})

    assert "takes 2 at a time" in begin(1, 1, 1).json()["message"]
    assert "0 MB" in begin(50, 101).json()["files"][1]["reason"]
    assert "MB left" in begin(100, 100).json()["message"]


def test_a_piece_that_does_not_follow_is_refused(make_client: MakeClient) -> None:
    client = make_client(uploads="temporary")
    id = client.post("/api/uploads", json={"files": [{"name": "a.txt", "size": 4}]}).json()["id"]
    assert client.put(f"/api/uploads/{id}/files/0?offset=2", content=b"ab").status_code == 422
    assert client.put(f"/api/uploads/{id}/files/0", content=b"abcde").status_code == 422
    assert client.put(f"/api/uploads/{id}/files/0", content=b"ab").json() == {"received": 2}
    assert "has not come whole" in client.post(f"/api/uploads/{id}/build").text
    assert client.put(f"/api/uploads/{id}/files/1", content=b"ab").status_code == 422


def test_a_server_without_uploads_takes_none(client: TestClient) -> None:
    assert client.post("/api/uploads", json={"files": [{"name": "a.txt", "size": 1}]}).status_code == 404
    assert client.get("/api/about").json()["uploads"] is None


def test_uploads_in_a_folder_outlive_the_server_and_are_deleted_by_hand(
    make_client: MakeClient, tmp_path: Path
) -> None:
    drop(make_client(uploads=tmp_path / "uploads"), {"lamps.md": LAMP})
    again = make_client(uploads=tmp_path / "uploads")
    assert [each["name"] for each in again.get("/api/indexes").json()] == ["lighthouses", "mine"]
    assert again.delete("/api/uploads/lighthouses").status_code == 404
    assert again.delete("/api/uploads/mine").status_code == 204
    assert again.post("/api/search", json={"query": "lamp", "index": "mine"}).status_code == 404
    assert list((tmp_path / "uploads").iterdir()) == []


def test_a_file_at_which_the_builder_dies_is_left_out(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib\n"
        "opened = pathlib.Path.open\n"
        "def deadly(self, *args, **kwargs):\n"
        "    if self.name == 'deadly.txt': os.kill(os.getpid(), 11)\n"
        "    return opened(self, *args, **kwargs)\n"
        "pathlib.Path.open = deadly\n"
    )
    import os

    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    client = make_client(uploads="temporary")
    name, built = drop(client, {"deadly.txt": b"This one kills its reader.", "lamps.md": LAMP})[-1]
    assert name == "end"
    assert [each["file"] for each in built["unreadable"]] == ["deadly.txt"]


def test_a_filter_holds_in_search_ask_refine_and_why(make_client: MakeClient) -> None:
    client = make_client(uploads="temporary")
    lines = b"The keeper of the lamp was careful with oil and wick.\n"
    drop(client, {"a/one.txt": b"One. " + lines, "b/two.txt": b"Two. " + lines, "b/three.md": b"Three. " + lines})
    facets = client.post("/api/facets", json={"index": "mine", "chosen": {"folder": ["b"], "type": ["txt"]}}).json()
    assert facets["passages"] == 1
    asked = {"index": "mine", "where": facets["where"]}
    hits = client.post("/api/search", json={"query": "keeper lamp", **asked}).json()["hits"]
    assert [hit["metadata"]["file"] for hit in hits] == ["b/two.txt"]
    session = client.post("/api/sessions", json={"question": "who keeps the lamp", "agent": "bm25+ps", **asked}).json()
    assert session["where"] == facets["where"]
    refined = client.post(f"/api/sessions/{session['id']}/refine", json={"op": "or", "term": "wick"}).json()
    assert set(refined["passages"]) == {"b/two.txt#1"}
    branch = client.post(f"/api/sessions/{session['id']}/branch", json={"step": 0}).json()
    assert branch["where"] == facets["where"]
    why = client.post("/api/why", json={"query": "keeper", "passage": "b/two.txt#1", **asked}).json()
    assert why["rank"] == 1
    hidden = client.post("/api/workshop/why-not", json={"query": "keeper", "passage": "a/one.txt#1", **asked}).json()
    assert hidden["rank"] is None


def test_a_bad_facet_is_an_error_in_words(client: TestClient) -> None:
    answer = client.post("/api/facets", json={"chosen": {"nothing": ["x"]}})
    assert answer.status_code == 422
    assert "no metadata" in answer.json()["message"]
