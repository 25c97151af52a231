"""A tiny MuZero for every test of the folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_muzero import save_muzero

from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.engine import EmbeddedEngine


@pytest.fixture(scope="session")
def muzero_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_muzero(tmp_path_factory.mktemp("muzero"))


@pytest.fixture(scope="session")
def muzero(muzero_folder: Path, embedded: EmbeddedEngine) -> MuZeroAgent:
    return MuZeroAgent.from_pretrained(muzero_folder, embedded, threads=1)
