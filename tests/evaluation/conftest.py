"""The session room's small world, evaluated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # for judged_bm25

from small_world import PASSAGES

from orienteer.engine import ReferenceEngine


@pytest.fixture(scope="session")
def engine() -> ReferenceEngine:
    return ReferenceEngine(PASSAGES)
