"""`orienteer bench steps`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orienteer.cli import app
from orienteer.data import Passage
from orienteer.engine import build_index


@pytest.mark.long
def test_the_cost_of_every_agents_step_is_told_alone_and_in_lock_step(tmp_path: Path) -> None:
    texts = ("kermit sings in a swamp", "piggy drives a red car", "gonzo was shot from a cannon", "fozzie tells jokes")
    index, questions = tmp_path / "index", tmp_path / "questions.jsonl"
    build_index([Passage(str(place), "muppets", text) for place, text in enumerate(texts)], index)
    rows = [{"id": str(place), "question": f"who {text}?", "answers": ["kermit"]} for place, text in enumerate(texts)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = CliRunner().invoke(
        app,
        ["bench", "steps", "--index", str(index), "--questions", str(questions), "--agents", "prf-idf-or, pointer",
         "--steps", "2", "--alone", "1", "--together", "4", "--json"],
        catch_exceptions=False,
    )  # fmt: skip
    found = json.loads(told.stdout)
    assert [(row["agent"], row["together"]) for row in found] == [
        ("prf-idf-or", 1), ("prf-idf-or", 4), ("pointer", 1), ("pointer", 4),
    ]  # fmt: skip
    for alone, together in (found[:2], found[2:]):
        assert together["steps"] > alone["steps"] > 0
    assert found[0]["wordpieces"] == 0 < found[2]["wordpieces"] <= 320
    assert all(row["processor ms"] > 0 and row["s a session: engine"] > 0 for row in found)
