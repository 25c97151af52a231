"""The workshop on the command line: what it prints, and one clear message for each mistake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orienteer import cli
from orienteer.data.passage import Passage
from orienteer.engine import build_index, open_index
from orienteer.query import parse

Run = Callable[..., tuple[int, str, str]]

PASSAGES = [
    Passage("oscar", "Oscar the Grouch", "Oscar is a green muppet who lives in a trash can."),
    Passage("grover", "Grover", "Grover is a blue muppet who waits tables."),
    Passage("kermit", "Kermit", "Kermit, a green frog, sings by a pond."),
    Passage("piggy", "Miss Piggy", "Miss Piggy sings on a stage, in green gloves."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("muppets") / "index"
    build_index(PASSAGES, folder, threads=1)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orienteer", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_why_not_prints_the_rank_and_the_smallest_edit(run: Run, index: Path) -> None:
    code, printed, _ = run("why-not", "green muppet", "--index", index, "--id", "kermit", "-k", 1)
    assert code == 0
    assert "rank 3" in printed
    assert "smallest edits (one change" in printed
    row = json.loads(run("why-not", "green muppet", "--index", index, "--id", "kermit", "-k", 1, "--json")[1])
    assert row["missing"] == ["muppet"]
    assert open_index(index).search(parse(row["edits"][0]["query"]), 1)[0].id == "kermit"


def test_why_not_names_an_unknown_passage_in_one_line(run: Run, index: Path) -> None:
    code, printed, message = run("why-not", "green", "--index", index, "--id", "gonzo")
    assert (code, printed) == (1, "")
    assert message.strip() == "error: the index holds no passage 'gonzo'"


def test_find_query_prints_the_query_for_a_set_in_every_form(run: Run, index: Path, tmp_path: Path) -> None:
    code, printed, _ = run("find-query", "--index", index, "--relevant", "oscar,grover")
    assert code == 0
    assert "F 1.000: 2 of 2 passages among 2 matches" in printed
    assert 'Lucene: "muppet"' in printed
    assert '"minimum_should_match": 1' in printed
    (tmp_path / "ids.txt").write_text("oscar\n\ngrover\n")
    row = json.loads(run("find-query", "--index", index, "--relevant", tmp_path / "ids.txt", "--json")[1])
    assert row["best"]["boolean"] == "muppet"
    ids = {hit.id for hit in open_index(index).search(parse(row["best"]["lucene"]), 4)}
    assert ids == {"oscar", "grover"}


def test_find_query_names_an_unknown_passage_in_one_line(run: Run, index: Path) -> None:
    code, _, message = run("find-query", "--index", index, "--relevant", "gonzo")
    assert code == 1
    assert message.strip() == "error: the index holds no passage 'gonzo'"


def test_tune_says_what_is_better_or_that_nothing_is_and_writes_the_settings(
    run: Run, index: Path, tmp_path: Path
) -> None:
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps({"id": p.id, "question": p.text.split()[-1]}) + "\n" for p in PASSAGES)
    )
    (tmp_path / "judged.qrels").write_text("".join(f"{p.id} 0 {p.id} 1\n" for p in PASSAGES))
    options = ("--judged", tmp_path / "questions.jsonl", "--qrels", tmp_path / "judged.qrels", "--folds", 2)
    code, printed, _ = run("tune", "--index", index, *options, "--out", tmp_path / "out")
    assert code == 0
    assert "no setting is shown to be better" in printed
    assert "4 questions" in printed
    ranking = json.loads((tmp_path / "out" / "ranking.json").read_text())["ranking"]
    assert (ranking["k1"], ranking["b"]) == (1.2, 0.75)
    assert "similarity" in (tmp_path / "out" / "opensearch.json").read_text()
    code, _, message = run("tune", "--index", index, "--judged", tmp_path / "questions.jsonl")
    assert code == 1
    assert "0 questions with judged passages in the index" in message
