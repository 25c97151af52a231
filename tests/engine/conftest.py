"""What engine tests share: the golden collection, Lucene's answers on it, a Lucene jar if there is one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orienteer.data.passage import Passage
from orienteer.engine.protocol import Hit
from orienteer.query import Query, parse

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # for lucene_bench


def _rows(name: str) -> list[dict[str, Any]]:
    with (HERE / name).open(encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def golden_passages() -> list[Passage]:
    """A small collection with ties, copies, stop words, many scripts, and passages without a title."""
    return [Passage(**row) for row in _rows("golden-passages.jsonl")]


@pytest.fixture(scope="session")
def golden_answers() -> list[tuple[Query, list[Hit]]]:
    """Queries and the top 5 that Lucene gave on the golden collection (`write_lucene_golden.py`)."""
    rows = _rows("golden-hits.jsonl")
    return [(parse(row["query"]), [Hit(id, float(np.float32(s))) for id, s in row["hits"]]) for row in rows]
