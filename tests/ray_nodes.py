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


HERE = "127.0.0.1"
# Ray reads these when it is first imported: loopback only, no token file in the home folder, and patience with a
# busy machine (its own is 15 seconds for a node's agent and 60 for a worker).
SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "disabled", "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}  # fmt: skip


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """The cluster, with this process connected to it; a test may add nodes and take them away."""
    os.environ.update(SETTINGS)
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'orienteer[ray]'")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": HERE}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    ray.init(
        address=cluster.address, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}},
    )  # fmt: skip
    yield cluster
    ray.shutdown()
    cluster.shutdown()
