"""A service to test with: a double on loopback with real Lucene inside, filled through the engine's own loading."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def lucene(lucene_jar: str) -> Any:
    pytest.importorskip("jpype", reason="needs JPype1 and Java: pip install 'orienteer[lucene]'")
    from lucene_index import Lucene

    return Lucene(lucene_jar)


@pytest.fixture(scope="module")
def start(lucene: Any) -> Iterator[Callable[..., Any]]:
    """Starts doubles of a flavour; they end with the module."""
    pytest.importorskip("opensearchpy", reason="needs opensearch-py: pip install 'orienteer[opensearch]'")
    from double import Double, running

    with ExitStack() as stack:

        def make(flavour: str = "opensearch-3", certificate: Any = None, **state: Any) -> Double:
            return stack.enter_context(running(Double(lucene, flavour, **state), certificate))

        yield make


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tests may have a service of their own in the environment."""
    import os

    for name in list(os.environ):
        if name.startswith("ORIENTEER_SEARCH_"):
            monkeypatch.delenv(name)
