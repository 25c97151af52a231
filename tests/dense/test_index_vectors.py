"""Vectors in the folder of an index: made, kept up to date, checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_world import PASSAGES
from test_dense_commands import run
from test_embeddings import Tired, content

from orienteer.dense import (
    Embeddings,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    StaticEncoder,
    TextEncoder,
    embed_index,
)
from orienteer.dense.embeddings import Manifest, rounded, row_type, write_manifest, write_shard
from orienteer.dense.index_vectors import damaged_vectors, encoder_address, has_vectors, make_vectors, open_vectors
from orienteer.engine import build_index, open_index, update_index


class Counting(TextEncoder):
    """Counts the texts it encodes."""

    texts = 0

    def encode(self, texts, progress=None):  # type: ignore[no-untyped-def]
        self.texts += len(texts)
        return super().encode(texts, progress)


def only_folder(index: Path) -> Path:
    [folder] = (index / "vectors").iterdir()
    return folder


def test_an_index_has_vectors_once_they_are_complete(tmp_path: Path, encoder: TextEncoder) -> None:
    build_index(PASSAGES, tmp_path)
    before = open_index(tmp_path).fingerprint
    assert not has_vectors(open_index(tmp_path))
    assert encoder_address(tmp_path) is None
    with pytest.raises(EmbeddingsMissingError, match=r"--out .* --dense static"):
        open_vectors(open_index(tmp_path))
    make_vectors(tmp_path, encoder)
    assert has_vectors(open_index(tmp_path))
    assert encoder_address(tmp_path) == encoder.address
    assert open_index(tmp_path).fingerprint == before
    found = open_vectors(open_index(tmp_path)).search_many([PASSAGES[3].contents], 2)[0]
    assert found[0].id == PASSAGES[3].id


def test_added_and_deleted_passages_cost_only_the_new_vectors_and_equal_a_fresh_build(
    tmp_path: Path, encoder_folder: Path
) -> None:
    changed, fresh = tmp_path / "changed", tmp_path / "fresh"
    build_index(PASSAGES[:9], changed)
    make_vectors(changed, TextEncoder.from_pretrained(encoder_folder, threads=1))
    update_index(changed, add=PASSAGES[9:], delete=[PASSAGES[0].id, PASSAGES[4].id])
    assert not has_vectors(open_index(changed))
    counting = Counting.from_pretrained(encoder_folder, threads=1)
    assert isinstance(counting, Counting)
    make_vectors(changed, counting)
    kept = [p for p in PASSAGES if p.id not in (PASSAGES[0].id, PASSAGES[4].id)]
    old = {p.contents for p in PASSAGES[:9]}
    assert counting.texts == sum(p.contents not in old for p in PASSAGES[9:])
    build_index(kept, fresh)
    make_vectors(fresh, TextEncoder.from_pretrained(encoder_folder, threads=1))
    assert only_folder(changed).name == only_folder(fresh).name
    assert content(only_folder(changed)) == content(only_folder(fresh))


def test_what_a_killed_run_made_is_used_after_the_index_changed(tmp_path: Path, encoder_folder: Path) -> None:
    build_index(PASSAGES, tmp_path)
    tired = Tired.from_pretrained(encoder_folder, threads=1)
    assert isinstance(tired, Tired)
    tired.left = 10
    folder = tmp_path / "vectors" / open_index(tmp_path).passages_fingerprint[:16]
    with pytest.raises(KeyboardInterrupt):
        embed_index(open_index(tmp_path), tired, folder, shard=5)
    assert not has_vectors(open_index(tmp_path))
    with pytest.raises(EmbeddingsMissingError, match="2 of 3 shards"):
        open_vectors(open_index(tmp_path))
    update_index(tmp_path, delete=[PASSAGES[0].id])
    counting = Counting.from_pretrained(encoder_folder, threads=1)
    assert isinstance(counting, Counting)
    make_vectors(tmp_path, counting)
    seen = {p.contents for p in PASSAGES[:10]}
    assert counting.texts == sum(p.contents not in seen for p in PASSAGES[10:])
    assert only_folder(tmp_path) != folder


def test_another_encoder_is_refused_beside_vectors_that_are_there(tmp_path: Path, encoder: TextEncoder) -> None:
    build_index(PASSAGES, tmp_path)
    make_vectors(tmp_path, encoder)
    with pytest.raises(EmbeddingsMismatchError, match="another encoder"):
        make_vectors(tmp_path, StaticEncoder.from_pretrained())


def test_embeddings_of_the_first_format_are_still_searched_and_finished(tmp_path: Path, encoder: TextEncoder) -> None:
    build_index(PASSAGES, tmp_path / "index")
    engine = open_index(tmp_path / "index")
    rows = rounded(encoder.encode([p.contents for p in PASSAGES]))
    assert rows.dtype == row_type(encoder.width, keyed=False)
    made = (write_shard(tmp_path, 0, rows[:5]), None, write_shard(tmp_path, 2, rows[10:]))
    old = replace(Manifest.of(engine, encoder.fingerprint, encoder.width, 5), shards=made, version=1)
    write_manifest(tmp_path, old)
    raw = json.loads((tmp_path / "embeddings.json").read_text())
    del raw["address"]  # as the first format had it
    (tmp_path / "embeddings.json").write_text(json.dumps(raw))
    assert embed_index(engine, encoder, tmp_path, shard=5).version == 1
    stored = np.concatenate(list(Embeddings.open(tmp_path).shards.values()))
    assert (stored == rows).all()


def test_the_command_makes_keeps_and_checks_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def lines(name: str, passages: list) -> Path:  # type: ignore[type-arg]
        file = tmp_path / name
        file.write_text("".join(json.dumps({"id": p.id, "title": p.title, "text": p.text}) + "\n" for p in passages))
        return file

    index = tmp_path / "index"
    first, more = lines("first.jsonl", list(PASSAGES[:8])), lines("more.jsonl", list(PASSAGES[8:]))
    assert run(monkeypatch, "index", first, "--out", index, "--dense", "static", "--json") == 0
    assert json.loads(capsys.readouterr().out)["vectors"]["width"] == StaticEncoder.from_pretrained().width
    (tmp_path / "gone").write_text(PASSAGES[2].id + "\n")
    assert run(monkeypatch, "index", more, "--out", index, "--add", "--delete", tmp_path / "gone") == 0
    assert "11 vectors" in capsys.readouterr().out
    assert has_vectors(open_index(index))
    assert run(monkeypatch, "index", "--out", index, "--verify") == 0
    shard = only_folder(index) / "shard-00000.npy"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert len(damaged_vectors(index)) == 1
    assert run(monkeypatch, "index", "--out", index, "--verify") == 1
    assert "shard-00000.npy" in capsys.readouterr().err
    assert run(monkeypatch, "index", "--out", index, "--dense", "static") == 0
    assert damaged_vectors(index) == []


def test_mistakes_are_one_line_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "1", "title": "", "text": "a lamp"}\n')
    assert run(monkeypatch, "index", tmp_path / "p.jsonl", "--out", tmp_path / "i", "--dense", "nowhere") == 1
    assert "no encoder there" in capsys.readouterr().err
    assert not (tmp_path / "i").exists()
    assert run(monkeypatch, "index", "--out", tmp_path / "i", "--dense", "static") == 1
    assert "no index at" in capsys.readouterr().err
    assert run(monkeypatch, "index", tmp_path / "p.jsonl", "--to", "https://x/y", "--dense", "static") == 1
    assert "--dense" in capsys.readouterr().err
