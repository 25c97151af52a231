"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

# `make test` draws the same examples each time; `make test-all` draws new and more ones.
# No deadline: a first call may compile a kernel.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def no_server_of_the_user() -> Iterator[None]:
    """The tests look for a running server's sockets in a folder of their own: one that the user left on stays out."""
    folder = tempfile.mkdtemp(prefix="orienteer-")  # short: the path of a socket has at most a hundred characters
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The corpora, questions and Lucene's answers, which lie in `shared` beside the project."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the folder {folder.name}/ beside the project's own")
    return folder


@pytest.fixture(scope="session")
def lucene_jar() -> str:
    """A jar that holds Lucene, named by the environment."""
    jar = os.environ.get("ORIENTEER_LUCENE_JAR")
    if not jar:
        pytest.skip("set ORIENTEER_LUCENE_JAR to a jar with Lucene to compare with the real one")
    return jar
