"""Limits of a server, and what is checked before any route: host, origin, token, body size; security headers."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page's own files, which hold no data, and a load balancer's probes need no token.
_OPEN = ("/", "/health", "/ready")
_OPEN_UNDER = "/page/"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client can take at most, so that the others get their share.

    body       bytes of a request; a session's file must fit
    question   characters of a question or query
    snippet    words of a passage that an agent sees
    k          passages of a search, and of each query of a session
    steps      refinements of a session, an agent's and a person's together
    running    agents running at one time; a further one gets 429
    sessions   sessions kept in memory
    memory     bytes of all sessions in memory; a single one may have an eighth of it
    saved      sessions kept on disk
    deadline   seconds an agent may run before the session so far is returned
    batch      passages read in one batch of all sessions: with more, a click would wait behind too many agents
    """

    body: int = 2 << 20
    question: int = 2_000
    snippet: int = 500
    k: int = 100
    steps: int = 50
    running: int = 256
    sessions: int = 2_000
    memory: int = 256 << 20
    saved: int = 10_000
    deadline: float = 120.0
    batch: int = 64


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SecurityMiddleware:
    """Rejects a request before a route is reached.

    Without a token only requests to a loopback host name are answered. This prevents DNS rebinding: a web page open
    on this machine could otherwise reach the server under a host name of its own.
    """

    def __init__(self, app: ASGIApp, token: str | None, max_body: int, hosts: Sequence[str] = ()) -> None:
        self._app, self._token, self._max_body, self._hosts = app, token, max_body, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        rejection = self._rejection(scope["path"], headers)
        if rejection is not None:
            await _reject(send, *rejection)
            return
        body = _BoundedBody(receive, self._max_body)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                response = MutableHeaders(scope=message)
                response.update(HEADERS)
                response.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, body, send_with_headers)

    def _rejection(self, path: str, headers: Headers) -> tuple[int, str, str] | None:
        host = _host_name(headers.get("host", ""))
        if not self._token and not (is_loopback(host) or host in self._hosts):
            return 400, "HostError", f"this server answers to its own address only, not to {host!r}"
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != headers.get("host", ""):
            return 403, "OriginError", "a page of another site may not call this server"
        is_open = path in _OPEN or path.startswith(_OPEN_UNDER)
        if self._token and not is_open and not _has_token(headers, self._token):
            return 401, "TokenNeededError", "a token is needed: send the header Authorization: Bearer TOKEN"
        size = headers.get("content-length", "0")
        if not size.isdecimal() or len(size) > 18 or int(size) > self._max_body:
            return _too_large(self._max_body)
        return None


class _BoundedBody:
    """`receive`, which raises 413 where the body grows too large."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive, self._left, self._max_bytes = receive, max_bytes, max_bytes

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                status, _, message = _too_large(self._max_bytes)
                raise HTTPException(status, message)
        return message


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None where it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """The host without its port: of `[::1]:8000`, of `127.0.0.1:8000`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _has_token(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _too_large(max_bytes: int) -> tuple[int, str, str]:
    return 413, "BodyTooLargeError", f"a request of more than {max_bytes:,} bytes; ask for less at a time"


async def _reject(send: Send, status: int, kind: str, message: str) -> None:
    body = json.dumps({"kind": kind, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    headers.append((b"cache-control", b"no-store"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
