"""The bundled corpus to search, and the session room's small world."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))
sys.path.insert(0, str(Path(__file__).parent))

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data import Question
from orienteer.engine import EmbeddedEngine


@pytest.fixture(scope="session")
def engine() -> EmbeddedEngine:
    return bundled_engine()


@pytest.fixture(scope="session")
def questions() -> list[Question]:
    return bundled_questions("train")
