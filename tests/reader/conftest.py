"""A tiny reader for every test of the room."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny import save_tiny

from orienteer.reader import TrainedReader


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_reader(tiny_folder: Path) -> TrainedReader:
    return TrainedReader.from_pretrained(tiny_folder, threads=1)
