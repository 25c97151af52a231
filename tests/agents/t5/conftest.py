"""A tiny T5 agent for every test of the folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "pointer"))

from tiny_seq2seq import save_seq2seq


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_seq2seq(tmp_path_factory.mktemp("t5"))
