"""Documents on the command line: what is not read is named, folders of documents are kept clean, files are replaced."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orienteer import __version__
from orienteer.cli import app
from orienteer.engine import build_index, open_index, update_index
from orienteer.errors import DataError, FilterError, FolderOccupiedError
from orienteer.query import parse


def run(*arguments: object):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "loch.md").write_text("# Loch\nThe loch is deep.\n")
    (folder / "town.txt").write_text("The town is old.\n")
    (folder / "bad.pdf").write_text("not a PDF")
    return folder


def test_documents_are_indexed_and_what_is_not_read_is_named(documents, tmp_path):
    done = run("index", documents, "--out", tmp_path / "index", "--json")
    assert done.exit_code == 0
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["unreadable"] == [{"file": "bad.pdf", "reason": "a broken PDF file"}]
    found = run("search", tmp_path / "index", "the", "deep", "loch", "--json")
    assert json.loads(found.stdout)["hits"][0]["source"] == "loch.md"
    assert "loch.md" in run("search", tmp_path / "index", "deep").stdout


def test_documents_of_which_none_can_be_read_are_an_error_and_leave_no_index(documents, tmp_path):
    done = run("index", documents / "bad.pdf", "--out", tmp_path / "index")
    assert isinstance(done.exception, DataError)
    assert "bad.pdf: a broken PDF file" in str(done.exception)
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_an_index_is_not_written_among_documents_unless_forced(documents):
    assert isinstance(run("index", documents, "--out", documents).exception, FolderOccupiedError)
    assert sorted(each.name for each in documents.iterdir()) == ["bad.pdf", "loch.md", "town.txt"]
    assert run("index", documents / "town.txt", "--out", documents, "--force").exit_code == 0


def test_a_document_added_again_replaces_itself(documents, tmp_path):
    index = tmp_path / "index"
    run("index", documents, "--out", index)
    (documents / "loch.md").write_text("# Loch\nThe loch is shallow.\n\n## Fish\nTrout.\n")
    assert run("index", documents / "loch.md", "--out", index, "--add").exit_code == 0
    engine = open_index(index)
    assert [engine.passage_at(number).text for number in range(len(engine))] == [
        "The town is old.", "The loch is shallow.", "Trout.",
    ]  # fmt: skip


def test_metadata_survives_an_update_and_an_index_without_any_has_no_file_for_it(tmp_path):
    from orienteer.data import Passage

    plain, rich = Passage("a", "", "one"), Passage("b", "", "two", {"year": 1999, "tags": ["x", "é"]})
    build_index([plain, rich], tmp_path / "index")
    manifest = update_index(tmp_path / "index", add=[Passage("c", "", "three", {"year": 2001})], delete=["a"])
    engine = open_index(tmp_path / "index")
    assert [p.metadata for p in engine.passages(["b", "c"])] == [{"year": 1999, "tags": ["x", "é"]}, {"year": 2001}]
    fresh = build_index([rich, Passage("c", "", "three", {"year": 2001})], tmp_path / "fresh")
    assert fresh.fingerprint == manifest.fingerprint
    assert "metadata.npy" not in build_index([plain], tmp_path / "plain").files


def test_the_version_is_printed():
    assert run("--version").stdout.strip() == f"orienteer {__version__}"


def test_sync_follows_the_folder_and_a_filter_narrows_a_search(documents, tmp_path):
    index = tmp_path / "index"
    first = run("sync", documents, "--out", index)
    assert first.exit_code == 0
    assert "3 added; 2 passages" in first.stdout
    assert "nothing new" in run("sync", documents, "--out", index).stdout
    (documents / "reports").mkdir()
    (documents / "town.txt").rename(documents / "reports" / "town.txt")
    (documents / "loch.md").unlink()
    row = json.loads(run("sync", documents, "--out", index, "--json").stdout)
    assert (row["moved"], row["deleted"], row["passages"]) == ([["town.txt", "reports/town.txt"]], ["loch.md"], 1)
    found = run("search", index, "old", "town", "--where", "folder:reports", "--json")
    assert [hit["id"] for hit in json.loads(found.stdout)["hits"]] == ["reports/town.txt#1"]
    assert json.loads(run("search", index, "old", "--where", "year<1990", "--json").stdout)["hits"] == []
    assert isinstance(run("search", index, "old", "--where", "folder").exception, FilterError)
    merged = run("index", "--out", index, "--merge", "--json")
    assert json.loads(merged.stdout)["passages"] == 1


_MEASURED = """
import resource, sys
from orienteer.engine.embedded.folder_sync import sync_folder
result = sync_folder(sys.argv[1], sys.argv[2])
print(result.manifest.passages, len(result.unreadable), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_file_of_200_mb_among_all_others_is_indexed_in_bounded_memory(tmp_path):
    sys.path.insert(0, str(Path(__file__).parent / "data"))
    from make_documents import UNREADABLE, make_documents

    make_documents(tmp_path / "documents", megabytes=200)
    command = [sys.executable, "-c", _MEASURED, str(tmp_path / "documents"), str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    passages, unreadable, megabytes = map(int, done.stdout.split())
    assert passages > 100_000
    assert unreadable == len(UNREADABLE)
    assert megabytes < 1500
    hits = list(open_index(tmp_path / "index").search(parse("wombatorium"), 5))
    assert [hit.id.partition("#")[0] for hit in hits] == ["large.txt"]
