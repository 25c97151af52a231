"""The tables of README and docs show what the files under results/ hold."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("check_results", ROOT / "tools" / "check_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_results"] = module
    spec.loader.exec_module(module)
    return module


def test_every_number_of_every_checked_table_is_the_files(tool: Any) -> None:
    for name in tool.DOCUMENTS:
        assert tool.problems(ROOT / name) == []


def test_a_changed_number_an_unknown_agent_and_an_unchecked_document_are_named(tool: Any, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    document = tmp_path / "README.md"
    document.write_text(text.replace("| 52.3 | 66.3 |", "| 52.4 | 66.3 |").replace("| `dense+ps`", "| `orchestra`"))
    wrong = tool.problems(document, ROOT)
    assert len(wrong) == 5
    assert "bm25@22+ps, NDCG@5 in test is 52.4, the file has 52.3" in wrong[0]
    assert "no NDCG@5 of orchestra" in wrong[1]
    document.write_text(text.replace("<!-- checked:", "<!-- not checked:"))
    assert tool.problems(document, ROOT) == ["README.md: no table is checked"]


def test_numbers_of_a_json_file_are_checked_by_their_path(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "gain.json").write_text('{"all": {"ratio": [1.524, 1.3, 1.8]}, "draws": 100}')
    head = "<!-- checked: gain.json -->\n| figure | value | 95 % |\n|---|---|---|\n"
    table = head + "| gain, `all.ratio` | {} | 1.3 to 1.8 |\n"
    document = tmp_path / "page.md"
    document.write_text(table.format("1.52") + "| `draws` | 100 | |\n")
    assert tool.problems(document, tmp_path) == []
    document.write_text(table.format("-1.52") + "| `hits` | 7 | |\n")
    wrong = tool.problems(document, tmp_path)
    assert len(wrong) == 2
    assert "all.ratio, 0 in gain.json is -1.52, the file has 1.524" in wrong[0]
    assert "no 0 of hits" in wrong[1]


def test_an_agent_is_found_under_the_name_it_was_recorded_with(tool: Any) -> None:
    assert [tool._recorded(name) for name in ("copynet-G1", "copynet", "copynet-G1[order=agreement]", "pointer")] == [
        "t5-G1", "t5", "t5-G1[order=agreement]", "pointer",
    ]  # fmt: skip
    rows = [figure.agent for figure in tool.figures(ROOT / "docs" / "results.md")]
    assert "copynet-G1" in rows
    assert not any(row.startswith("t5") for row in rows)


def test_costs_of_an_agent_are_checked_too(tool: Any, tmp_path: Path) -> None:
    values = {"passages_read": [20.0, 24.0], "refinements_scored": [600.0, 601.0]}
    timed = {"name": "a", "questions": 2, "engine": 1.0, "reader": 6.0, "agent": 2.0, "total": 10.0}
    (tmp_path / "out" / "summaries").mkdir(parents=True)
    row = {"agent": "a", "values": values, "seconds": timed}
    (tmp_path / "out" / "summaries" / "a.json").write_text(json.dumps(row))
    head = "<!-- checked: out -->\n| agent | read | refinements scored | seconds |\n|---|---|---|---|\n"
    document = tmp_path / "page.md"
    document.write_text(head + "| `a` | 22 | 600.5 | 2.0 |\n")
    assert tool.problems(document, tmp_path) == []
    document.write_text(head + "| `a` | 22 | 600.5 | 5.0 |\n")
    assert len(tool.problems(document, tmp_path)) == 1
