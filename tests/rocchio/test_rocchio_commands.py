"""The room's commands, mounted as the command line mounts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from generated_world import ASKED
from hash_reader import HashReader
from typer.testing import CliRunner, Result

from orienteer.bundled import bundled_engine
from orienteer.commands import rocchio as commands
from orienteer.data import write_jsonl
from orienteer.engine import Engine
from orienteer.reader.protocol import Reader
from orienteer.rocchio import RocchioError, read_sessions
from orienteer.rocchio.generation import BackendFiles

Command = Callable[..., Result]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    def opened(self: BackendFiles) -> tuple[Engine, Reader]:
        return bundled_engine(), HashReader(ASKED)

    monkeypatch.setattr(BackendFiles, "open", opened)
    app = typer.Typer()
    for function in (commands.rocchio, commands.rocchio_stats, commands.rocchio_landscape):
        app.command(function.__name__.replace("_", "-"))(function)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return run


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "questions.jsonl", ASKED)
    return tmp_path / "questions.jsonl"


def test_sessions_are_searched_and_told(command: Command, questions: Path, tmp_path: Path) -> None:
    out, small = tmp_path / "sessions.jsonl", tmp_path / "small.jsonl.zst"
    options = ("-n", 10, "-m", 5, "--steps", 2, "--grammar", "G0,G4", "--limit", 5, "--balanced", "--json")
    told = command("rocchio", "--index", "x", "--questions", questions, "--out", out, "--compact", small, *options)
    assert told.exit_code == 0
    row = json.loads(told.stdout)
    assert (row["questions"], row["sessions"], row["compact_sessions"]) == (5, 10, 10)
    header, sessions = read_sessions(out)
    config = header.config
    assert (config.n, config.m, config.settings.steps, config.read_budget) == (
        10,
        5,
        2,
        None,
    )
    assert len(list(sessions)) == 10
    assert read_sessions(small)[0].compact
    stats = command("rocchio-stats", out, "--json")
    assert set(json.loads(stats.stdout)) == {"G0", "G4"}
    shown = command("rocchio-stats", out, small)
    assert "how they ended" in shown.stdout


def test_questions_are_chosen_by_source_and_place(command: Command, tmp_path: Path) -> None:
    asked = [replace(question, source="ab"[n % 2]) for n, question in enumerate(ASKED[:12])]
    write_jsonl(tmp_path / "questions.jsonl", asked)
    options = ("-n", 3, "-m", 2, "--steps", 1, "--source", "b", "--skip", 1, "--limit", 3)
    out = tmp_path / "sessions.jsonl"
    command("rocchio", "--index", "x", "--questions", tmp_path / "questions.jsonl", "--out", out, *options)
    assert [session.id for session in read_sessions(out)[1]] == [question.id for question in asked[3:9:2]]
    with pytest.raises(RocchioError, match="no question has the source 'c'; the files have a, b"):
        command(
            "rocchio", "--index", "x", "--questions", tmp_path / "questions.jsonl", "--out", out, "--source", "b,c"
        )  # fmt: skip


def test_a_read_budget_is_told_in_the_file(command: Command, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "sessions.jsonl"
    options = ("-n", 10, "-m", 5, "--limit", 3, "--read-budget", 4, "--snippet", 30)
    command("rocchio", "--index", "x", "--questions", questions, "--out", out, *options)
    header, sessions = read_sessions(out)
    assert header.config.read_budget == 4
    assert header.config.settings.snippet == 30
    assert all(step.read <= 4 for session in sessions for step in session.steps)


def test_the_landscape_is_written_for_the_report(command: Command, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "landscape.jsonl"
    command("rocchio-landscape", "--index", "x", "--questions", questions, "--out", out, "--limit", 2, "--step", 0.5)
    assert len(out.read_text().splitlines()) == 6


@pytest.mark.parametrize(
    "arguments", [("rocchio",), ("rocchio-stats",), ("rocchio-landscape",), ("bench", "sessions")]
)  # fmt: skip
def test_the_command_line_has_them(arguments: tuple[str, ...]) -> None:
    from orienteer.cli import app

    told = CliRunner().invoke(app, [*arguments, "--help"])
    assert told.exit_code == 0
    assert f"orienteer {' '.join(arguments)}" in told.stdout
