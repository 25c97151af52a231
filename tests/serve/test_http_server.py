"""Connections that send slowly, never, or too many: the server goes on for everybody else."""

from __future__ import annotations

import http.client
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from serving_world import TIMEOUT, listening

from orienteer.serve.http_server import BoundedConnection, ConnectionLimits, raise_file_limit
from orienteer.serve.security import HEADERS

LARGE_ENDED = threading.Event()
PATIENT = ConnectionLimits(head=3600, body=3600, answer=3600, idle=3600)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers when the whole body is there; /large with many megabytes."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000 if scope["path"] == "/large" else 1):
        await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    if scope["path"] == "/large":
        LARGE_ENDED.set()


@contextmanager
def connected(address: str, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", urlsplit(address).port), timeout=TIMEOUT) as connection:
        connection.sendall(sent)
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that the server sends until it closes."""
    data = b""
    with suppress(ConnectionResetError):
        while block := connection.recv(1 << 16):
            data += block
    return data


def status(address: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=TIMEOUT)
    connection.request("GET", "/")
    return connection.getresponse().status


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: a\r\nx: "])
def test_a_head_that_never_comes_whole_ends_the_connection_and_says_why(sent: bytes) -> None:
    with listening(app, ConnectionLimits(head=0.2)) as address, connected(address, sent) as connection:
        answer = rest(connection).decode()
    assert answer.startswith("HTTP/1.1 408 ")
    assert all(f"{name}: {value}" in answer for name, value in HEADERS.items())


def test_a_head_that_trickles_in_ends_too() -> None:
    with listening(app, ConnectionLimits(head=0.3)) as address, connected(address) as connection:
        connection.settimeout(0.05)
        until = time.monotonic() + TIMEOUT
        ended = False
        while not ended and time.monotonic() < until:
            try:
                connection.sendall(b"G")
                ended = connection.recv(100) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended


def test_a_body_that_never_comes_whole_ends_the_connection() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nabc"
    with listening(app, ConnectionLimits(body=0.2)) as address, connected(address, head) as connection:
        assert rest(connection) == b""


@pytest.mark.parametrize("sent_before", [True, False], ids=["before it was accepted", "after it was accepted"])
def test_a_request_that_came_while_the_server_stood_still_is_answered(
    monkeypatch: pytest.MonkeyPatch, sent_before: bool
) -> None:
    """The loop stands still for longer than a head may take; the time is over when it looks again."""
    limits = ConnectionLimits(head=0.2)
    accepted, sent, real = threading.Event(), threading.Event(), BoundedConnection.connection_made

    def stands_still(connection: BoundedConnection, transport: Any) -> None:
        real(connection, transport)
        accepted.set()
        assert sent.wait(TIMEOUT)
        time.sleep(3 * limits.head)

    with listening(app, limits) as address:
        monkeypatch.setattr(BoundedConnection, "connection_made", stands_still)
        with connected(address) as connection:
            if not sent_before:
                assert accepted.wait(TIMEOUT)
            connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            sent.set()
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_an_answer_that_nobody_takes_ends_the_connection() -> None:
    head = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n"
    with listening(app, ConnectionLimits(answer=0.2)) as address, connected(address, head) as connection:
        assert LARGE_ENDED.wait(TIMEOUT)  # nothing is read before the server gives up
        assert len(rest(connection)) < 1000 << 16


def test_a_second_request_on_the_connection_has_its_own_time() -> None:
    head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    with listening(app, ConnectionLimits(head=0.3)) as address, connected(address, head) as connection:
        data = b""
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data += connection.recv(1 << 16)
        connection.sendall(b"GET / HT")
        assert b"408" in rest(connection)


def test_half_sent_requests_beyond_the_cap_displace_each_other_and_nobody_else() -> None:
    limits = ConnectionLimits(3600, 3600, 3600, 3600, connections=20)
    with listening(app, limits) as address, ExitStack() as open_connections:
        half_sent = [open_connections.enter_context(connected(address, b"GET / HT")) for _ in range(200)]
        assert status(address) == 200
        assert rest(half_sent[0]) == b""


def test_a_request_that_is_no_http_gets_400_with_the_security_headers() -> None:
    with listening(app, PATIENT) as address, connected(address, b"\x16\x03\x01 hello\r\n\r\n") as connection:
        answer = rest(connection).decode()
    assert answer.startswith("HTTP/1.1 400 ")
    assert "nosniff" in answer


def test_an_answer_on_a_kept_connection_does_not_wait_for_a_delayed_acknowledgement() -> None:
    """Without TCP_NODELAY every one takes 40 ms; the best of many is free of what else the machine does."""
    with listening(app, PATIENT) as address:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=TIMEOUT)
        seconds = []
        for _ in range(30):
            started = time.perf_counter()
            connection.request("GET", "/")
            connection.getresponse().read()
            seconds.append(time.perf_counter() - started)
        connection.close()
    assert sorted(seconds)[3] < 0.035


def test_the_limit_of_open_files_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
