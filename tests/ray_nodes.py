"""A Ray cluster of two nodes on this machine, on loopback only, for the tests that want one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
# Actors import what tests hand to them from the folders that the tests themselves see.
FOLDERS = [
    TESTS.parent / "src",
    TESTS,
    *(TESTS / room for room in ("dense", "engine", "evaluation", "rocchio", "session")),
]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """The cluster, with this process connected to it; a test may add nodes and take them away."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'orienteer[ray]'")
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback, not the machine's address
    os.environ["RAY_AUTH_MODE"] = "disabled"
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(
        address=cluster.address, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}},
    )  # fmt: skip
    yield cluster
    ray.shutdown()
    cluster.shutdown()
