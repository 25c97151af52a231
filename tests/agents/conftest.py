"""The small world of the session's tests, and a tiny pointer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))
sys.path.insert(0, str(Path(__file__).parent / "pointer"))

from lexical_reader import LexicalReader
from small_world import PASSAGES
from tiny_pointer import save_pointer

from orienteer.agents.pointer.agent import PointerAgent
from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine, build_index, open_index
from orienteer.query import G4
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


@pytest.fixture(scope="session")
def pointer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pointer(tmp_path_factory.mktemp("pointer"))


@pytest.fixture(scope="session")
def pointer(pointer_folder: Path, embedded: EmbeddedEngine) -> PointerAgent:
    return PointerAgent.from_pretrained(pointer_folder, embedded, G4, threads=1)
