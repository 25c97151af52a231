"""Fixtures that every room's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

# `make test` draws the same examples each time; `make test-all` draws new and more ones.
# No deadline: a first call may compile a kernel.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The corpora, questions and Lucene's answers, which lie in `shared` beside the project."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the folder {folder.name}/ beside the project's own")
    return folder
