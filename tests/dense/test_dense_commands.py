"""`orienteer embed`, `orienteer dense-run` and `orienteer dense-join`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_world import QUESTIONS

from orienteer import cli
from orienteer.dense import EmbeddingRetriever, Embeddings, RunRetriever, TextEncoder, embed_index, write_run
from orienteer.engine import EmbeddedEngine


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["orienteer", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_embeddings_are_made_once_and_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, index_folder: Path,
    encoder_folder: Path,
) -> None:  # fmt: skip
    made = tmp_path / "embeddings"
    embed = ("embed", "--index", index_folder, "--out", made, "--encoder", encoder_folder, "--threads", 1, "--json")
    for count in (12, 0):
        assert run(monkeypatch, *embed) == 0
        row = json.loads(capsys.readouterr().out)
        assert (row["passages"], row["made"]) == (12, count)
    assert Embeddings.open(made).manifest.passages == 12

    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps({"id": q.id, "question": q.question}) + "\n" for q in QUESTIONS))
    monkeypatch.setenv("ORIENTEER_ENCODER", str(encoder_folder))
    out = tmp_path / "runs" / "small.trec.xz"
    command = ("dense-run", "--index", index_folder, "--embeddings", made, "--questions", file, "--out", out, "-k", 8)
    assert run(monkeypatch, *command) == 0
    assert "5 questions × 8 passages" in capsys.readouterr().out
    assert len(RunRetriever(tmp_path / "runs").search_many([QUESTIONS[0].question], 8)[0]) == 8


@pytest.mark.long
def test_two_machines_make_one_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, index_folder: Path,
    encoder_folder: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("ORIENTEER_ENCODER", str(encoder_folder))
    monkeypatch.setattr(embed_index, "__kwdefaults__", {**embed_index.__kwdefaults__, "shard": 5})
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps({"id": q.id, "question": q.question}) + "\n" for q in QUESTIONS))

    def search(name: str, *options: object) -> int:
        out = tmp_path / f"{name}.trec.xz"
        return run(monkeypatch, "dense-run", "--index", index_folder, "--embeddings", tmp_path / name,
                   "--questions", file, "--out", out, "-k", 4, *options)  # fmt: skip

    def embed(name: str, *options: object) -> int:
        return run(monkeypatch, "embed", "--index", index_folder, "--out", tmp_path / name, *options)

    assert embed("first", "--to", 4) == 0
    assert "5 of 12 passages in" in capsys.readouterr().out
    assert embed("second", "--from", 5) == 0
    assert "7 of 12 passages in" in capsys.readouterr().out
    assert search("first") == 1
    assert "1 of 3 shards" in capsys.readouterr().err
    assert [search(name, "--partial") for name in ("first", "second")] == [0, 0]
    assert "5 questions × 4 passages, found in 7 of 12" in capsys.readouterr().out
    parts = [tmp_path / f"{name}.trec.xz" for name in ("second", "first")]
    assert run(monkeypatch, "dense-join", *parts, "--out", tmp_path / "runs" / "joined.trec.xz", "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["covers"] == [[0, 12]]
    assert told.err == ""

    assert embed("whole") == 0
    assert search("whole") == 0
    assert (tmp_path / "runs" / "joined.trec.xz").read_bytes() == (tmp_path / "whole.trec.xz").read_bytes()
    assert (tmp_path / "runs" / "joined.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert len(RunRetriever(tmp_path / "runs").search_many([QUESTIONS[0].question], 4)[0]) == 4

    capsys.readouterr()
    assert run(monkeypatch, "dense-join", parts[1], "--out", tmp_path / "joined.trec.xz") == 1
    assert "no part covers 7 of the 12 passages" in capsys.readouterr().err
    assert run(monkeypatch, "dense-join", parts[1], "--partial", "--out", tmp_path / "joined.trec.xz") == 0
    assert "found in 5 of 12" in capsys.readouterr().out


def test_a_join_of_runs_from_other_processors_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: EmbeddedEngine,
    encoder: TextEncoder, embeddings_folder: Path,
) -> None:  # fmt: skip
    write_run(tmp_path / "a.trec", EmbeddingRetriever(engine, Embeddings.open(embeddings_folder), encoder), QUESTIONS)
    notes = json.loads((tmp_path / "a.json").read_text())
    for name, covers, vectors in (("a", [[0, 5]], "here"), ("b", [[5, 12]], "there")):
        (tmp_path / f"{name}.trec").write_bytes((tmp_path / "a.trec").read_bytes())
        row = {**notes, "covers": covers, "question_vectors": [vectors]}
        (tmp_path / f"{name}.json").write_text(json.dumps(row))
    arguments = (tmp_path / "a.trec", tmp_path / "b.trec", "--out", tmp_path / "c.trec")
    assert run(monkeypatch, "dense-join", *arguments) == 0
    assert "different processors" in capsys.readouterr().err


@pytest.mark.parametrize("options", [("--from", 12), ("--to", 0), ("--from", 8, "--to", 8), ("--to", 13)])
def test_a_bad_range_is_one_line(
    options: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    index_folder: Path, encoder_folder: Path,
) -> None:  # fmt: skip
    arguments = ("embed", "--index", index_folder, "--out", tmp_path / "out", "--encoder", encoder_folder, *options)
    assert run(monkeypatch, *arguments) == 1
    assert "expected 0 ≤ from < to ≤ 12" in capsys.readouterr().err


def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, index_folder: Path
) -> None:
    assert run(monkeypatch, "embed", "--index", index_folder, "--out", tmp_path, "--encoder", tmp_path / "none") == 1
    assert "no encoder there" in capsys.readouterr().err
    assert run(monkeypatch, "embed", "--index", tmp_path / "none", "--out", tmp_path) == 1
    assert "no index at" in capsys.readouterr().err
