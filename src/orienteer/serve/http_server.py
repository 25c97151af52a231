"""Runs an app on a socket, so that clients who send slowly, or never, cannot stop it.

A connection has some seconds for the head of a request, more for its body, and as many to take what is sent to it.
There are at most so many connections: a further one displaces the one that has waited longest without a whole request,
and is itself closed where all of them are being answered. The number of open files that the process may have is raised
to fit.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from orienteer.errors import OrienteerError
from orienteer.serve.security import HEADERS

log = logging.getLogger("orienteer.serve")

_FILES = 65_536, 10_240, 2_048  # wanted, the first that the system allows
_RESERVED_FILES = 128  # for indexes, saved sessions, logs
_HEAD_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds a connection has for the head and the body of a request, for the answer to be taken, and between two
    requests; how many connections there may be."""

    head: float = 10.0
    body: float = 30.0
    answer: float = 60.0
    idle: float = 15.0
    connections: int = 1000


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, so that the address can be printed before the first client comes."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise OrienteerError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port") from None
    # Accepted sockets inherit it. asyncio sets it only on sockets made with an explicit protocol; without it the last
    # part of every answer waits for the client's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run_http(app: Any, listeners: list[socket.socket], limits: ConnectionLimits | None = None) -> None:
    """Serves until it is stopped."""
    http_server(app, limits).run(sockets=listeners)


def http_server(app: Any, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    limits = limits or ConnectionLimits()
    connections = min(limits.connections, max(1, raise_file_limit() - _RESERVED_FILES))
    config = uvicorn.Config(
        app, http=partial(BoundedConnection, limits=limits, connections=connections), ws="none",
        access_log=False, log_level="warning", timeout_graceful_shutdown=3, server_header=False,
        timeout_keep_alive=limits.idle, h11_max_incomplete_event_size=_HEAD_BYTES,
    )  # fmt: skip
    return uvicorn.Server(config)


def raise_file_limit() -> int:
    """How many files this process may have open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _FILES[0]
    for wanted in _FILES:
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft >= wanted:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS allows less than it says
            continue
        return wanted
    return soft


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's with a timer for what it waits for: a head, a body, or a client that reads."""

    def __init__(self, *args: Any, limits: ConnectionLimits, connections: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits, self._most = limits, connections
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for = ""
        self.since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._most and self._displaces_itself():
            return
        self._wait_for("head", self._limits.head)

    def _displaces_itself(self) -> bool:
        """Closes the connection that has waited longest without a whole request; True where it is this one."""
        opened = [each for each in self.connections if isinstance(each, BoundedConnection)]
        opened = [each for each in opened if not each.transport.is_closing()]
        if len(opened) <= self._most:
            return False
        oldest = min((each for each in opened if not each.answers), key=lambda each: each.since)
        oldest.transport.abort()
        return oldest is self

    @property
    def answers(self) -> bool:
        """Whether a whole request has come that is not yet answered."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            # A head has begun. Its timer runs on from its first byte, whatever trickles in.
            self._wait_for("head", self._limits.head)
        elif self.cycle.more_body:
            self._wait_for("body", self._limits.body)
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop_waiting()
        self.since = time.monotonic()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for("answer", self._limits.answer)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._waits_for == "answer":
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Bad Request", msg)

    def _wait_for(self, what: str, seconds: float) -> None:
        if self._waits_for != what:
            self._stop_waiting()
            self._waits_for, self._timer = what, self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waits_for, self._timer = "", None

    def _give_up(self) -> None:
        """Ends the connection; a client that has been sent nothing yet is told why."""
        what, self._timer = self._waits_for, None
        if what == "head" and not self.transport.is_closing():
            self._refuse(408, "Request Timeout", f"no whole request in {self._limits.head:g} seconds")
        else:
            self.transport.abort()

    def _refuse(self, status: int, reason: str, message: str) -> None:
        headers = {"content-type": "text/plain; charset=utf-8", "connection": "close", **HEADERS}
        lines = [f"HTTP/1.1 {status} {reason}", f"content-length: {len(message)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", message]).encode("latin-1"))
        self.transport.close()
