"""Indexes of a real server, with the names by which tests look into the double's."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class RealIndex:
    def __init__(self, url: str):
        self._url = url

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def _whole(self) -> Mapping[str, Any]:
        [whole] = self._ask("GET", "").values()
        return dict(whole)

    @property
    def mappings(self) -> Mapping[str, Any]:
        return dict(self._whole()["mappings"])

    @property
    def settings(self) -> dict[str, Any]:
        """Settings as they were given: a server writes every number as text."""
        index = self._whole()["settings"]["index"]
        return {"refresh_interval": None, **_numbers(index)}

    @property
    def sources(self) -> dict[str, Any]:
        self._ask("POST", "/_refresh")
        rows = self._ask("POST", "/_search", {"size": 10_000})["hits"]["hits"]
        return {row["_id"]: row["_source"] for row in rows}

    def search(self, body: Any, kind: str) -> Any:
        return self._ask("POST", f"/_search?search_type={kind}", body)


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(each) for name, each in value.items()}
    try:
        return float(value) if "." in value else int(value)
    except (TypeError, ValueError):
        return value


class RealIndexes:
    """By the name that the test gave; the server has them under a prefix, so that tests do not meet."""

    def __init__(self, url: str, prefix: str):
        self._url, self._prefix = url, prefix

    def __getitem__(self, name: str) -> RealIndex:
        return RealIndex(f"{self._url}/{self._prefix}{name}")


def forward(url: str, prefix: str, method: str, path: str, query: str, kind: str, body: bytes) -> tuple[int, Any]:
    """A request to the real server, the index's name prefixed; its status and JSON, the prefix taken off again."""
    there = f"/_cluster/health/{prefix}{path.rsplit('/', 1)[1]}" if path.startswith("/_cluster/health/") else path
    if path != "/" and there == path:
        there = f"/{prefix}{path[1:]}"
    target = url + there + (f"?{query}" if query else "")
    request = urllib.request.Request(target, body or None, {"content-type": kind or "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    return status, json.loads(text.replace(prefix, ""))
