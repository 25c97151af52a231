"""`orienteer embed` and `orienteer dense-run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_world import QUESTIONS

from orienteer import cli
from orienteer.dense import Embeddings, RunRetriever


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


def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, index_folder: Path
) -> None:
    assert run(monkeypatch, "embed", "--index", index_folder, "--out", tmp_path, "--encoder", tmp_path / "none") == 1
    assert "no encoder there" in capsys.readouterr().err
    assert run(monkeypatch, "embed", "--index", tmp_path / "none", "--out", tmp_path) == 1
    assert "no index at" in capsys.readouterr().err
