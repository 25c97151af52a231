"""A test double of OpenSearch and Elasticsearch on loopback: the part of their REST interface that Orienteer speaks.

Documents and searches are real Lucene's (`lucene_index.py`); what is doubled is the door, and faults can be put in it.
With an `upstream`, a real server's address, only the door is left: requests go through to the server, and come to grief
as before.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from lucene_index import BadRequestError, Lucene, LuceneIndex
from real_index import RealIndexes, forward

FLAVOURS = {
    "opensearch-3": ("3.2.0", "opensearch", False),
    "opensearch-2": ("2.19.0", "opensearch", True),
    "elasticsearch-9": ("9.1.0", None, True),
    "elasticsearch-8": ("8.15.0", None, True),
}


@dataclass
class Fault:
    """Something that goes wrong with the next `times` requests whose path contains `path`."""

    kind: str  # slow, 429, 503, drop, partial, html, json, some, timed_out, echo
    times: int = 1
    path: str = "_msearch"
    skip: int = 0  # so many requests go well first


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    lines: list[Any]


@dataclass
class Double:
    """The service's state; tests read and change it while it runs."""

    java: Lucene | None
    flavour: str = "opensearch-3"
    upstream: str | None = None
    prefix: str = ""  # of every index's name on the server behind
    credentials: str | None = None  # the Authorization header it wants
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    indexes: Any = field(default_factory=dict)  # LuceneIndex by name
    base: str = ""
    under_way: int = 0
    most_under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.upstream is not None:
            self.prefix = f"t{uuid.uuid4().hex[:8]}-"
            self.indexes = RealIndexes(self.upstream, self.prefix)

    def requests(self, path: str) -> list[Seen]:
        return [each for each in self.seen if path in each.path]

    def next_fault(self, path: str) -> str | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.path in path:
                    if fault.skip:
                        fault.skip -= 1
                        return None
                    fault.times -= 1
                    return fault.kind
        return None


@contextmanager
def running(double: Double, certificate: tuple[Path, Path] | None = None) -> Iterator[Double]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"double": double}))
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    double.base = f"{'https' if certificate else 'http'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body of an answer leave at once
    double: Double

    def log_message(self, *arguments: object) -> None:
        pass

    def do(self) -> None:
        double = self.double
        with double.lock:
            double.under_way += 1
            double.most_under_way = max(double.most_under_way, double.under_way)
        try:
            self._answer(double)
        finally:
            with double.lock:
                double.under_way -= 1

    do_GET = do_POST = do_PUT = do_DELETE = do

    def _answer(self, double: Double) -> None:
        parts = urlsplit(self.path)
        path, params = unquote(parts.path), dict(parse_qsl(parts.query))
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        lines = [json.loads(line) for line in body.decode().split("\n") if line] if body else []
        double.seen.append(Seen(self.command, path, dict(self.headers.items()), lines))
        if double.credentials is not None and self.headers.get("authorization") != double.credentials:
            echo = self.headers.get("authorization") or "nothing"
            return self._send(401, _error("security_exception", f"cannot authenticate with {echo}"))
        fault = double.next_fault(path)
        if fault == "slow":
            return self._await_hang_up()
        if fault in ("429", "503"):
            kind = "rejected_execution_exception" if fault == "429" else "cluster_block_exception"
            return self._send(int(fault), _error(kind, "the service is too busy"), {"Retry-After": "0"})
        if fault == "drop":
            return self._drop()
        if fault == "html":
            return self._raw(200, b"<html>a proxy's page</html>", "application/json")
        if fault == "json":
            return self._send(200, {"acknowledged": True})
        if fault == "echo":
            return self._send(403, _error("security_exception", f"no rights: {self.headers.get('authorization')}"))
        try:
            refused = lines[0:2] if fault == "some" and path.endswith("_bulk") else []
            status, answer = self._carried_out(path, parts.query, params, lines[len(refused) :])
            if refused:
                busy = {"type": "rejected_execution_exception", "reason": "queue is full"}
                answer["items"].insert(
                    0, {"create": {"_id": refused[0]["create"]["_id"], "status": 429, "error": busy}}
                )
        except BadRequestError as error:
            status, answer = 400, _error("parsing_exception", str(error))
        return self._send(status, _spoiled(answer, fault))

    def _carried_out(self, path: str, query: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
        double = self.double
        if double.upstream is None:
            return route(double, self.command, path, params, lines)
        kind, written = self.headers.get("content-type", ""), [json.dumps(line) for line in lines]
        ends = "\n" if "ndjson" in kind else ""
        body = "".join(line + ends for line in written).encode()
        return forward(double.upstream, double.prefix, self.command, path, query, kind, body)

    def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        self._raw(status, json.dumps(answer).encode(), "application/json", headers)

    def _raw(self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            if self.double.flavour.startswith("elasticsearch"):
                self.send_header("X-elastic-product", "Elasticsearch")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _await_hang_up(self) -> None:
        """No answer at all, until the client gives up."""
        self.close_connection = True
        while self.connection.recv(1 << 16):
            pass

    def _drop(self) -> None:
        """Close the connection in the middle of the answer."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _error(kind: str, reason: str) -> dict[str, Any]:
    return {"error": {"type": kind, "reason": reason, "root_cause": [{"type": kind, "reason": reason}]}}


def _spoiled(answer: Any, fault: str | None) -> Any:
    """An answer of which a part is wrong."""
    parts = answer.get("responses", []) if isinstance(answer, dict) else []
    if fault == "partial":
        for part in parts:
            part["_shards"] |= {"failed": 1, "successful": part["_shards"]["total"] - 1}
            part["hits"]["hits"] = part["hits"]["hits"][1:]
    elif fault == "timed_out":
        for part in parts:
            part["timed_out"] = True
            part["hits"]["hits"] = []
    elif fault == "some":
        busy = {"type": "rejected_execution_exception", "reason": "queue is full"}
        for at in range(0, len(parts), 2):
            parts[at] = {"error": busy, "status": 429}
    return answer


def route(double: Double, method: str, path: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    if path == "/":
        number, distribution, _ = FLAVOURS[double.flavour]
        version = {"number": number, **({"distribution": distribution} if distribution else {})}
        return 200, {"name": "double", "cluster_name": "double", "version": version}
    if path.startswith("/_cluster/health"):
        return 200, {"status": "green", "number_of_nodes": 1}
    found = re.fullmatch(r"/([^/_][^/]*)(?:/(_\w+))?", path)
    if found is None:
        raise BadRequestError(f"the test double knows no path {path!r}")
    name, verb = found[1], found[2] or ""
    if method == "PUT" and not verb:
        assert double.java is not None
        if name in double.indexes:
            return 400, _error("resource_already_exists_exception", f"index [{name}] already exists")
        double.indexes[name] = LuceneIndex(double.java, name, lines[0], FLAVOURS[double.flavour][2])
        return 200, {"acknowledged": True, "index": name}
    if (index := double.indexes.get(name)) is None:
        return 404, _error("index_not_found_exception", f"no such index [{name}]")
    return _VERBS[verb](index, method, params, lines)


def _whole(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    return 200, {index.name: {"aliases": {}, "mappings": index.mappings, "settings": {"index": index.settings}}}


def _bulk(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    items = []
    for action, source in zip(lines[::2], lines[1::2], strict=True):
        id = action["create"]["_id"]
        status = index.create(id, source)
        error = {"error": {"type": "version_conflict_engine_exception", "reason": "exists"}} if status == 409 else {}
        items.append({"create": {"_id": id, "status": status, **error}})
    return 200, {"took": 1, "errors": any("error" in item["create"] for item in items), "items": items}


def _refresh(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    index.refresh()
    return 200, {"_shards": {"total": 1, "successful": 1, "failed": 0}}


def _msearch(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return 200, {"took": 1, "responses": [index.search(b, h.get("search_type", "query_then_fetch")) for h, b in pairs]}


def _mget(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    names = params.get("_source", "").split(",")
    docs = []
    for id in lines[0]["ids"]:
        source = index.sources.get(id)
        row: dict[str, Any] = {"_index": index.name, "_id": id, "found": source is not None}
        if source is not None:
            row["_source"] = {name: source[name] for name in names if name in source}
        docs.append(row)
    return 200, {"docs": docs}


def _analyze(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    text = lines[0]["text"]
    return 200, {"tokens": index.analyze(lines[0]["field"], [text] if isinstance(text, str) else text)}


def _termvectors(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    [(field, text)] = lines[0]["doc"].items()
    shard = int(params["preference"].removeprefix("_shards:"))
    found = {term: index.frequency(field, term, shard) for term in text.split()}
    terms = {term: {"term_freq": 1, **({"doc_freq": often} if often else {})} for term, often in found.items()}
    return 200, {"_index": index.name, "found": True, "term_vectors": {field: {"terms": terms}}}


def _mapping(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    index.mappings |= lines[0]
    return 200, {"acknowledged": True}


def _settings(index: LuceneIndex, method: str, params: dict[str, str], lines: list[Any]) -> tuple[int, Any]:
    index.settings |= lines[0].get("index", lines[0])
    return 200, {"acknowledged": True}


_VERBS: dict[str, Callable[[LuceneIndex, str, dict[str, str], list[Any]], tuple[int, Any]]] = {
    "": _whole, "_bulk": _bulk, "_refresh": _refresh, "_msearch": _msearch, "_mget": _mget, "_analyze": _analyze,
    "_termvectors": _termvectors, "_mapping": _mapping, "_settings": _settings,
}  # fmt: skip
