"""A service to test with: a double on loopback with real Lucene inside, filled through the engine's own loading."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools" / "search_servers")]

SERVER = os.environ.get("ORIENTEER_TEST_SERVER", "")  # opensearch-3:1 is a product and its number of nodes
RUNNING = os.environ.get("ORIENTEER_TEST_SERVER_URL")  # one of that kind that runs already


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Real servers on loopback (`make test-opensearch`); the tests of the double then run against them."""
    if not SERVER:
        pytest.skip("needs real servers: make test-opensearch")
    from servers import Cluster, ServersMissing

    product, _, nodes = SERVER.partition(":")
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(product, int(nodes or 1), quick=True))
        except ServersMissing as error:
            pytest.skip(f"no real servers: {error}")
        yield made


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest) -> str:
    """The address of a real server."""
    return RUNNING or str(request.getfixturevalue("cluster").url)


@pytest.fixture(scope="session")
def lucene(request: pytest.FixtureRequest) -> Any:
    """Lucene for the double; none where a real server is behind it."""
    if SERVER:
        return None
    jar = request.getfixturevalue("lucene_jar")
    pytest.importorskip("jpype", reason="needs JPype1 and Java: pip install 'orienteer[lucene]'")
    from lucene_index import Lucene

    return Lucene(jar)


@pytest.fixture(scope="module")
def start(request: pytest.FixtureRequest, lucene: Any) -> Iterator[Callable[..., Any]]:
    """Starts doubles of a flavour, or doors to the real server, whatever the flavour; they end with the module."""
    pytest.importorskip("opensearchpy", reason="needs opensearch-py: pip install 'orienteer[opensearch]'")
    from double import Double, running

    upstream = request.getfixturevalue("url") if SERVER else None
    with ExitStack() as stack:

        def make(flavour: str = "opensearch-3", certificate: Any = None, **state: Any) -> Double:
            flavour = SERVER.partition(":")[0] or flavour
            return stack.enter_context(running(Double(lucene, flavour, upstream, **state), certificate))

        yield make


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tests may have a service of their own in the environment, or a workbench that would answer `ask`."""
    monkeypatch.setenv("ORIENTEER_RESIDENT", "0")
    for name in list(os.environ):
        if name.startswith("ORIENTEER_SEARCH_"):
            monkeypatch.delenv(name)
