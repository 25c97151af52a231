"""A small world to search, for every test of the room."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lexical_reader import LexicalReader
from small_world import PASSAGES

from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.session import Environment, Settings


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = tmp_path_factory.mktemp("lighthouses") / "index"
    build_index(PASSAGES, folder)
    return open_index(folder, threads=1)


@pytest.fixture
def environment(engine: EmbeddedEngine) -> Environment:
    return Environment(engine, LexicalReader(), Settings(steps=6))
