"""A passage among its neighbours of the same document."""

from __future__ import annotations

from pathlib import Path

import pytest

from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, ReferenceEngine, build_index, open_index
from orienteer.engine.protocol import neighbours
from orienteer.errors import UnknownPassageError

PASSAGES = [
    Passage("a1", "Lamps", "one", {"file": "a.txt"}), Passage("a2", "Oil", "two", {"file": "a.txt"}),
    Passage("a3", "Oil", "three", {"file": "a.txt"}), Passage("b1", "Oil", "four", {"file": "b.txt"}),
    Passage("c1", "Tower", "five"), Passage("c2", "Tower", "six"), Passage("d", "", "seven"), Passage("e", "", "eight"),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = Path(tmp_path_factory.mktemp("neighbours") / "index")
    build_index(PASSAGES, folder)
    return open_index(folder, threads=1)


@pytest.mark.parametrize(
    ("id", "around", "expected"),
    [
        ("a2", 1, ["a1", "a2", "a3"]),
        ("a3", 5, ["a1", "a2", "a3"]),
        ("b1", 2, ["b1"]),
        ("c1", 3, ["c1", "c2"]),
        ("d", 3, ["d"]),
        ("a1", 0, ["a1"]),
    ],
)
def test_neighbours_are_of_the_same_file_or_title(
    engine: EmbeddedEngine, id: str, around: int, expected: list[str]
) -> None:
    assert [each.id for each in neighbours(engine, id, around)] == expected


def test_an_engine_without_an_order_gives_the_passage_alone() -> None:
    assert [each.id for each in neighbours(ReferenceEngine(PASSAGES), "a2", 2)] == ["a2"]


def test_an_unknown_passage_is_an_error(engine: EmbeddedEngine) -> None:
    with pytest.raises(UnknownPassageError):
        neighbours(engine, "none", 1)
