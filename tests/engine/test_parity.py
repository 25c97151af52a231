"""Through the command line, real Lucene's answers on a real corpus: same ids, same order, same float32 scores."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = 806


def orienteer(*arguments: object) -> str:
    command = [sys.executable, "-m", "orienteer.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def oracle(shared_data: Path) -> list[dict[str, Any]]:
    file = shared_data / "oracle/lucene-parity.jsonl.xz"
    if not file.is_file():
        pytest.skip(f"needs Lucene's answers, {file.name}, in the folder {shared_data.name}/ beside the project's own")
    with lzma.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def shard(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    passages = shared_data / "data/passages/passages-0.jsonl.xz"
    if not passages.is_file():
        pytest.skip(f"needs the passages {passages.name} in the folder {shared_data.name}/ beside the project's own")
    folder = tmp_path_factory.mktemp("parity") / "index"
    orienteer("index", passages, "--out", folder)
    return folder


@pytest.mark.long
def test_every_answer_of_lucene_comes_out_of_the_command_line(oracle, shard, tmp_path) -> None:
    queries = tmp_path / "queries"
    queries.write_text("".join(row["query"] + "\n" for row in oracle), encoding="utf-8", newline="\n")
    answers = orienteer("search", shard, "--queries", queries, "--json").split("\n")[:-1]
    assert len(oracle) == len(answers) == ROWS
    for row, answer in zip(oracle, map(json.loads, answers), strict=True):
        assert answer["query"] == row["query"]
        assert [hit["id"] for hit in answer["hits"]] == [id for id, _ in row["hits"]], row["query"]
        scores = [np.float32(hit["score"]) for hit in answer["hits"]]
        assert scores == [np.float32(score) for _, score in row["hits"]], row["query"]


@pytest.mark.long
def test_one_query_alone_gives_the_same_and_its_shares_add_up(oracle, shard) -> None:
    row = next(row for row in oracle if "+(" in row["query"] and len(row["hits"]) == 5)
    answer = json.loads(orienteer("search", shard, row["query"], "--explain", "--json"))
    for hit, (wanted, score) in zip(answer["hits"], row["hits"], strict=True):
        assert (hit["id"], np.float32(hit["score"])) == (wanted, np.float32(score))
        sums = [sum(s["score"] for s in hit["shares"] if s["occur"] == occur) for occur in ("must", "should")]
        assert np.float32(sums[0]) + np.float32(sums[1]) == np.float32(score)
