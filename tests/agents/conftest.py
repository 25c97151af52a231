"""The small world of the session's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))

from lexical_reader import LexicalReader
from small_world import PASSAGES

from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine, build_index, open_index
from orienteer.session import Environment, Settings


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = tmp_path_factory.mktemp("lighthouses") / "index"
    build_index(PASSAGES, folder)
    return open_index(folder, threads=1)


@pytest.fixture(params=["embedded", "reference"])
def engine(request: pytest.FixtureRequest, embedded: EmbeddedEngine) -> Engine:
    """The embedded engine, and one of which only the protocol is known."""
    return embedded if request.param == "embedded" else ReferenceEngine(PASSAGES)


@pytest.fixture
def environment(engine: Engine) -> Environment:
    return Environment(engine, LexicalReader(), Settings(steps=6))
