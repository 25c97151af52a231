"""What is checked before any route: the host, the origin, the token, the size; and headers for every answer."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page's own files and what a load balancer asks are open; the page holds no data.
_OPEN = ("/", "/health", "/ready")
_OPEN_UNDER = "/page/"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Refuses before a route is reached.

    Without a token only requests that name a loopback host are answered: else any page in a browser on this machine
    could reach the server under a name of its own.
    """

    def __init__(self, app: ASGIApp, token: str | None, body: int, hosts: Sequence[str] = ()) -> None:
        self._app, self._token, self._body, self._hosts = app, token, body, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        bounded = _Bounded(receive, self._body)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, bounded, dressed)

    def _refusal(self, path: str, headers: Headers) -> tuple[int, str, str] | None:
        host = _host_name(headers.get("host", ""))
        if not self._token and not (is_loopback(host) or host in self._hosts):
            return 400, "HostError", f"this server answers to its own address only, not to {host!r}"
        origin = headers.get("origin")
        if origin and urlsplit(origin).netloc != headers.get("host"):
            return 403, "OriginError", "a page of another site may not call this server"
        is_open = path in _OPEN or path.startswith(_OPEN_UNDER)
        if self._token and not is_open and not _has_token(headers, self._token):
            return 401, "TokenNeededError", "a token is needed: send the header Authorization: Bearer TOKEN"
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > self._body:
            return _too_large(self._body)
        return None


class _Bounded:
    """A request's body, cut off with an error where it grows too large."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left, self._most = receive, most, most

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                status, _, message = _too_large(self._most)
                raise HTTPException(status, message)
        return message


def _host_name(host: str) -> str:
    """`[::1]:8000` and `127.0.0.1:8000` without their port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _has_token(headers: Headers, token: str) -> bool:
    kind, _, given = headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _too_large(most: int) -> tuple[int, str, str]:
    return 413, "BodyTooLargeError", f"a request of more than {most:,} bytes; ask for less at a time"


async def _refuse(send: Send, status: int, kind: str, message: str) -> None:
    body = json.dumps({"kind": kind, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
