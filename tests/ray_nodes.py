"""A Ray cluster of two nodes on this machine, on loopback only, for the tests that want one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
ROOMS = ("agents/muzero", "agents/pointer", "dense", "engine", "evaluation", "reader", "rocchio", "session")
# Actors import what tests hand to them from the folders that the tests themselves see.
FOLDERS = [TESTS.parent / "src", TESTS, *(TESTS / room for room in ROOMS)]

NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1"}
FIRST = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
TRIES = 5
# Ray reads these when it is first imported: loopback only, no token file in the home folder, and patience with a
# busy machine (its own is 15 seconds for a node's agent and 60 for a worker).
SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "disabled", "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}  # fmt: skip


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """The cluster, with this process connected to its first node."""
    os.environ.update(SETTINGS)
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'orienteer[ray]'")
    from ray.cluster_utils import Cluster

    cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args={**NODE, **FIRST}))
    patiently(lambda: cluster.add_node(**NODE))
    ray.init(
        address=cluster.address, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}},
    )  # fmt: skip
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def patiently(start: Callable[[], Any]) -> Any:
    """Ray gives a new node's helpers 15 seconds, a figure in its code; on a busy machine not every node makes it."""
    for left in reversed(range(TRIES)):
        try:
            return start()
        except Exception:  # Ray has no class of its own for this
            if not left:
                raise
    return None


class SecondNode:
    """The node that this process is not connected to. As a listener to progress it is killed half way."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.killed = False

    def kill(self) -> None:
        [node] = self._cluster.worker_nodes
        self._cluster.remove_node(node, allow_graceful=False)
        self.killed = True

    def __call__(self, progress: Any) -> None:
        if not self.killed and progress.total > progress.done >= progress.total / 3:
            self.kill()


@contextmanager
def second_node(cluster: Any) -> Iterator[SecondNode]:
    """One that may be killed; another takes its place for the next test."""
    node = SecondNode(cluster)
    yield node
    if node.killed:
        patiently(lambda: cluster.add_node(**NODE))
