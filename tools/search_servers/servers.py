"""Real search servers on loopback: jars from Maven, a process for each node, no Docker.

    python tools/search_servers/servers.py opensearch-3 --nodes 3

starts a cluster and prints its addresses; Ctrl-C ends it. Tests and benchmarks use `Cluster`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[1] / ".cache" / "search-servers"
HTTP_PORTS, TRANSPORT_PORTS = range(9210, 9299), range(9310, 9399)
START_SECONDS = 240.0  # a node on a busy machine


@dataclass(frozen=True, slots=True)
class Product:
    runner: str
    config: str
    manager: str  # what its settings call the node that manages the cluster
    java: int  # the least version


PRODUCTS = {
    "opensearch-3": Product("org.codelibs.opensearch.runner.OpenSearchRunner", "opensearch.yml", "cluster_manager", 21),
    "opensearch-2": Product("org.codelibs.opensearch.runner.OpenSearchRunner", "opensearch.yml", "cluster_manager", 11),
    "elasticsearch-7": Product(
        "org.codelibs.elasticsearch.runner.ElasticsearchClusterRunner", "elasticsearch.yml", "master", 11
    ),
}


class ServersMissing(Exception):
    """Why real servers cannot be started here, in a sentence."""


def find_java(least: int) -> Path:
    """The oldest Java that is new enough, of JAVA_HOME, the path and the usual folders."""
    homes = [Path(home) for home in (os.environ.get("JAVA_HOME"),) if home]
    candidates = [home / "bin" / "java" for home in homes]
    candidates += [Path(found) for found in (shutil.which("java"),) if found]
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    known: dict[int, Path] = {}
    for java in candidates:
        try:
            said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
        except (OSError, subprocess.CalledProcessError):
            continue
        if found := re.search(r'version "(\d+)', said):
            known.setdefault(int(found[1]), java)
    fit = [version for version in known if version >= least]
    if not fit:
        raise ServersMissing(f"needs Java {least} or later; found {', '.join(map(str, sorted(known))) or 'none'}")
    return known[min(fit)]


def jars(product: str) -> Path:
    """The folder of a product's jars, downloaded once."""
    folder = JARS / product
    if (folder / ".complete").is_file():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ServersMissing("needs Maven (mvn) to download the servers' jars")
    shutil.rmtree(folder, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(HERE / "pom.xml"), "-P", product, "dependency:copy-dependencies"]
    done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise ServersMissing(f"Maven could not download {product}: {lines[0] if lines else done.returncode}")
    (folder / ".complete").touch()
    return folder


@dataclass(slots=True)
class Node:
    """One server process. `kill`, `pause` and `resume` are signals; `start` after `kill` is a restart."""

    folder: Path
    http_port: int
    transport_port: int
    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def start(self) -> None:
        with (self.folder / "out.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """As if the machine had lost its power."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """In good order; a node that does not end in a minute is killed."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()


@dataclass(slots=True)
class Cluster:
    """Nodes of one product on loopback, in a folder that goes away with them unless it is given."""

    product: str
    count: int = 1
    heap: str = "512m"
    quick: bool = False  # a quicker start for less speed afterwards: for tests
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    nodes: list[Node] = field(default_factory=list)
    _made: Path | None = None

    def __enter__(self) -> Cluster:
        known = PRODUCTS[self.product]
        java, classes = find_java(known.java), jars(self.product)
        if self.folder is None:
            self.folder = self._made = Path(tempfile.mkdtemp(prefix="search-servers-"))
        folder = self.folder.resolve()
        http, transport = free_ports(self.count, HTTP_PORTS), free_ports(self.count, TRANSPORT_PORTS)
        hosts = [f"127.0.0.1:{port}" for port in transport]
        for number in range(self.count):
            base = folder / f"node-{number + 1}"
            config = base / "node_1" / "config"
            config.mkdir(parents=True, exist_ok=True)
            settings: dict[str, Any] = {
                "network.host": "127.0.0.1",
                "discovery.seed_hosts": hosts,
                f"cluster.initial_{known.manager}_nodes": hosts,
                "cluster.routing.allocation.disk.threshold_enabled": False,
                "action.auto_create_index": False,
                **self.settings,
            }
            lines = [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
            (config / known.config).write_text("".join(lines), encoding="utf-8")
            own = {
                "cluster.name": f"orienteer-{transport[0]}", "node.name": f"node-{number + 1}",
                "http.port": http[number], "transport.port": transport[number], "discovery.type": "zen",
            }  # fmt: skip
            command = [
                str(java), f"-Xms{self.heap}", f"-Xmx{self.heap}", "-XX:+UseSerialGC",
                *(["-XX:TieredStopAtLevel=1"] if self.quick else []), "-Djava.awt.headless=true", "-cp",
                f"{classes}/*", str(HERE / "SearchNode.java"), known.runner, str(base),
                *(f"{name}={value}" for name, value in own.items()),
            ]  # fmt: skip
            self.nodes.append(Node(base, http[number], transport[number], command))
        try:
            for node in self.nodes:
                node.start()
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The first node's address."""
        return self.nodes[0].url

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def wait(self, status: str = "yellow", nodes: int | None = None) -> None:
        """Until the cluster is whole: so many nodes, and of this health."""
        wanted, end, said = nodes or len(self.nodes), time.monotonic() + START_SECONDS, "nothing"
        while time.monotonic() < end:
            for node in self.nodes:
                if node.process is None or node.process.poll() is not None:
                    continue
                try:
                    path = f"/_cluster/health?wait_for_nodes={wanted}&wait_for_status={status}&timeout=2s"
                    health = self.ask("GET", path, node=node)
                    ours = health["cluster_name"] == f"orienteer-{self.nodes[0].transport_port}"
                    if ours and not health["timed_out"] and health["number_of_nodes"] == wanted:
                        return
                    said = f"{health['number_of_nodes']} nodes, {health['status']}"
                except OSError as error:
                    said = str(error)
            if all(node.process is None or node.process.poll() is not None for node in self.nodes):
                break
            time.sleep(0.2)
        logs = "\n".join((node.folder / "out.log").read_text("utf-8", "replace")[-1500:] for node in self.nodes)
        raise ServersMissing(f"{self.product} did not start ({said}):\n{logs}")

    def ask(self, method: str, path: str, body: Any = None, node: Node | None = None) -> Any:
        """A request of the tests' own, past Orienteer's client."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            (node or self.nodes[0]).url + path, data, {"content-type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        return json.loads(text) if text[:1] in "{[" else text

    def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.process.terminate()
        for node in self.nodes:
            node.stop()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def free_ports(count: int, among: range) -> list[int]:
    found: list[int] = []
    for port in random.sample(among, len(among)):  # so that two clusters started at once seldom want the same
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ServersMissing(f"no {count} free ports from {among.start} to {among.stop - 1} on loopback")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("product", choices=sorted(PRODUCTS), nargs="?", default="opensearch-3")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--heap", default="512m")
    parser.add_argument("--quick", action="store_true", help="start sooner, search more slowly: for tests")
    parser.add_argument("--folder", type=Path, help="keeps data and logs; without it they go away in the end")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        with Cluster(given.product, given.nodes, given.heap, given.quick, folder=given.folder) as cluster:
            print(" ".join(cluster.urls), flush=True)
            signal.pause()
    except ServersMissing as error:
        sys.exit(f"{given.product}: {error}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
