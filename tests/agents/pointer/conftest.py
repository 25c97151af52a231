"""A tiny pointer for every test of the folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_pointer import save_pointer

from orienteer.agents.pointer.agent import PointerAgent
from orienteer.engine import EmbeddedEngine
from orienteer.query import G4


@pytest.fixture(scope="session")
def pointer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pointer(tmp_path_factory.mktemp("pointer"))


@pytest.fixture(scope="session")
def pointer(pointer_folder: Path, embedded: EmbeddedEngine) -> PointerAgent:
    return PointerAgent.from_pretrained(pointer_folder, embedded, G4, threads=1)
