"""The commands of the room, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from orienteer.commands import reader as commands
from orienteer.commands.agreement import train_agreement
from orienteer.commands.train import train_reader
from orienteer.data import Passage
from orienteer.errors import OrienteerError

app = typer.Typer()
app.command()(commands.read)
app.command("train-reader")(train_reader)
app.command("train-agreement")(train_agreement)

PASSAGES = [
    Passage("1", "Paris", "Paris is the capital of France. It lies on the Seine."),
    Passage("2", "War and Peace", "War and Peace is by Leo Tolstoy. [red]Not markup[/red]."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from orienteer.data import write_jsonl
    from orienteer.engine import build_index

    folder = tmp_path_factory.mktemp("index")
    write_jsonl(folder / "passages.jsonl", PASSAGES)
    build_index(PASSAGES, folder / "index")
    return folder / "index"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception:
        raise result.exception
    return result.output


def test_read_shows_the_answer_and_the_passage(index: Path, tiny_folder: Path):
    shown = run("read", "who wrote war and peace", "--index", index, "--reader", tiny_folder)
    assert "War and Peace" in shown
    assert "[red]" in shown.replace("\n", "")


def test_read_shows_no_control_character(tiny_folder: Path, tmp_path: Path):
    from orienteer.engine import build_index

    evil = "evil \x1b]0;owned\x07 \x1b[31m \x9b31m text"
    build_index([Passage("e", evil, evil)], tmp_path / "evil")
    for options in ([], ["--json"]):
        shown = run("read", "evil text", "--index", tmp_path / "evil", "--reader", tiny_folder, *options)
        assert "text" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_read_gives_json_with_offsets(index: Path, tiny_folder: Path):
    found = json.loads(run("read", "capital of france", "--index", index, "--reader", tiny_folder, "--json"))
    [first, *_] = found["passages"]
    assert first["text"][first["start"] : first["end"]] == first["answer"]


def test_read_without_hits_says_so(index: Path, tiny_folder: Path):
    assert "nothing found" in run("read", "zebra", "--index", index, "--reader", tiny_folder)


def test_agreement_is_fitted_on_sessions_and_judged_beside_ps(index: Path, tiny_folder: Path, tmp_path: Path):
    rows = [
        {"id": "1", "question": "what is the capital of france", "answers": ["Paris"]},
        {"id": "2", "question": "who wrote war and peace", "answers": ["Leo Tolstoy"]},
        {"id": "3", "question": "what is on the seine", "answers": ["Berlin"]},
    ]
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("train-agreement", "--index", index, "--questions", asked, "--reader", tiny_folder)
    found = json.loads(run(*command, "--agents", "bm25@5+ps,bm25+ps", "--json"))
    assert found["weights"].keys() == {"holds", "gives"}
    assert set(found["weights"]["gives"]) == {"ps", "votes", "support", "asked", "bias"}
    assert found["sessions"].keys() == {"bm25@5+ps", "bm25+ps"}
    assert [row["top5"] for both in found["sessions"].values() for row in both] == pytest.approx([200 / 3] * 4)
    assert "agreement, held out" in run(*command, "--agents", "bm25+ps")
    asked.write_text(json.dumps({"id": "1", "question": "zebra", "answers": ["x"]}) + "\n")
    with pytest.raises(OrienteerError, match="no session found a passage"):
        run(*command)


def test_a_missing_reader_is_one_clear_error(index: Path, tmp_path: Path):
    with pytest.raises(OrienteerError, match="no reader there"):
        run("read", "capital", "--index", index, "--reader", tmp_path / "nowhere")


def test_a_part_that_the_benchmark_does_not_have_is_named_before_anything_is_read(tmp_path: Path):
    from orienteer.cli import app as whole

    with pytest.raises(OrienteerError, match="--parts god: expected some of gold,speed,rank,float32"):
        CliRunner().invoke(whole, ["bench", "reader", "--index", str(tmp_path), "--parts", "gold,god"],
                           catch_exceptions=False)  # fmt: skip
