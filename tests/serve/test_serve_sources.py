"""A page of the PDF that a passage is from: only files that the index names, in its folder, as they were indexed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_world import MakeClient

from orienteer.data import read_passages
from orienteer.data.passage import Passage
from orienteer.data.texts import file_hash
from orienteer.engine import build_index, open_index


def write_pdf(path: Path, pages: list[str]) -> None:
    """A small PDF by hand: a page for each text, in Helvetica."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects += [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        words, lines = text.split(), []
        for start in range(0, len(words), 8):
            lines.append(f"({' '.join(words[start : start + 8])}) Tj 0 -24 Td")
        drawn = f"BT /F1 14 Tf 60 760 Td {' '.join(lines)} ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * n} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, table, len(objects) + 1, len(data)
    )  # fmt: skip
    path.write_bytes(data)


PAGES = [  # short, so that one passage stands on both
    "The first page tells of the reef and of the ships that it broke in the storms of autumn.",
    "The second page tells that Signe Berg lit the lamp of Skerry Rock in the winter of 1903.",
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    write_pdf(folder / "lamps.pdf", PAGES)
    return folder


def pixels(png: bytes) -> Any:
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT")
    size = struct.unpack(">I", png[start - 4 : start])[0]
    rows = zlib.decompress(png[start + 4 : start + 4 + size])
    return np.frombuffer(rows, np.uint8).reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_the_page_of_a_passage_is_drawn_with_the_passage_marked(
    make_client: MakeClient, documents: Path, tmp_path: Path
) -> None:
    build_index(read_passages([documents]), tmp_path / "index")
    client = make_client(engines={"manual": open_index(tmp_path / "index")}, documents={"manual": documents})
    hits = client.post("/api/search", json={"query": "Signe Berg"}).json()["hits"]
    found = client.get("/api/document", params={"id": hits[0]["id"]}).json()
    assert found["pdf"] is True
    answer = client.get("/api/source/page", params={"id": hits[0]["id"]})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    drawn = pixels(answer.content)
    yellow = (drawn[..., 0] == 255) & (drawn[..., 2] < 140)
    for page in np.array_split(yellow, 2):  # the passage stands on both pages, one below the other
        assert page.sum() > 2000  # the marked lines
        assert page[page.shape[0] // 2 :].sum() == 0  # nothing in the empty half
    file = client.get("/api/source/file", params={"id": hits[0]["id"]})
    assert file.content == (documents / "lamps.pdf").read_bytes()
    assert file.headers["content-type"] == "application/pdf"


@pytest.mark.parametrize("name", ["../secret.pdf", "/etc/passwd", "link.pdf", "none.pdf", "notes.txt", ""])
def test_a_file_outside_the_folder_is_never_opened_whatever_the_index_names(
    make_client: MakeClient, documents: Path, tmp_path: Path, name: str
) -> None:
    write_pdf(tmp_path / "secret.pdf", ["secret " * 10])
    (documents / "link.pdf").symlink_to(tmp_path / "secret.pdf")
    (documents / "notes.txt").write_text("notes")
    known = {"file": name, "page": 1, "hash": file_hash(tmp_path / "secret.pdf")}
    build_index([Passage("p", "T", "secret words", known)], tmp_path / "index")
    client = make_client(engines={"manual": open_index(tmp_path / "index")}, documents={"manual": documents})
    for route in ("page", "file"):
        assert client.get(f"/api/source/{route}", params={"id": "p"}).status_code == 404
    assert client.get("/api/document", params={"id": "p"}).json()["pdf"] is False


def test_a_file_that_has_changed_is_not_shown(make_client: MakeClient, documents: Path, tmp_path: Path) -> None:
    build_index(read_passages([documents]), tmp_path / "index")
    client = make_client(engines={"manual": open_index(tmp_path / "index")}, documents={"manual": documents})
    write_pdf(documents / "lamps.pdf", ["other " * 20])
    answer = client.get("/api/source/page", params={"id": "lamps.pdf#1"})
    assert answer.status_code == 404
    assert "has changed" in answer.json()["message"]


def test_a_source_needs_the_token_as_everything_does(make_client: MakeClient, documents: Path, tmp_path: Path) -> None:
    build_index(read_passages([documents]), tmp_path / "index")
    client = make_client(
        engines={"manual": open_index(tmp_path / "index")}, documents={"manual": documents}, token="long-enough"
    )
    assert client.get("/api/source/file", params={"id": "lamps.pdf#1"}).status_code == 401


def test_where_documents_lie_must_be_told(make_client: MakeClient, documents: Path, tmp_path: Path) -> None:
    build_index(read_passages([documents]), tmp_path / "index")
    client = make_client(engines={"manual": open_index(tmp_path / "index")})
    answer = client.get("/api/source/page", params={"id": "lamps.pdf#1"})
    assert "--documents" in answer.json()["message"]
