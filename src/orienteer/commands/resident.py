"""A running `orienteer serve` answers for the command line: what is loaded already is not loaded again.

The server listens also on a Unix socket in a folder that only its user can enter, one for each index, named by the
index's path. `ask` and `search` look for it there; where nobody listens they do the work themselves. A server with a
token offers none. `ORIENTEER_RESIDENT=0` turns it off on either side.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from orienteer.errors import OrienteerError

SWITCH = "ORIENTEER_RESIDENT"
_CONNECT = 2.0  # seconds; a server that takes longer to accept is not worth waiting for
_ANSWER = 600.0


class ServerError(OrienteerError):
    """A server that runs, but cannot do what the command wants."""


class ResidentServer:
    """A server that has the index open, under a name of its own."""

    def __init__(self, path: Path, index: str) -> None:
        self._path, self.index = path, index

    def request(self, method: str, place: str, body: Mapping[str, Any] | None = None) -> bytes:
        """The body of the response; raises `ServerError` where the server refuses or is gone."""
        from http.client import HTTPConnection, HTTPException  # with `email`: not for commands that no server answers

        connection = HTTPConnection("localhost")
        try:
            connection.sock = _connected(self._path)
            data = None if body is None else json.dumps(body)
            connection.request(method, place, data, {"content-type": "application/json"} if data else {})
            response = connection.getresponse()
            found = response.read()
        except (OSError, HTTPException) as error:
            raise ServerError(f"the server that runs does not answer: {error}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise ServerError(f"the server that runs cannot do this: status {response.status}")
        return found


def find_server(index: str | os.PathLike[str] | None) -> ResidentServer | None:
    """The server that has this index open; None where there is none."""
    if not _enabled():
        return None
    path = _socket_path(index)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_CONNECT)
            probe.connect(str(path))
        return ResidentServer(path, str(json.loads(path.with_suffix(".json").read_text())["index"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def offered(indexes: Mapping[str, str | None]) -> Iterator[list[socket.socket]]:
    """Sockets on which the command line finds a server of these indexes: name → address, None for the bundled one."""
    listeners: list[socket.socket] = []
    files: list[Path] = []
    try:
        for name, address in indexes.items() if _enabled() else ():
            path = _socket_path(address)
            if find_server(address) is not None:
                continue  # another server was first
            try:
                listeners.append(_listening(path))
                files += [path, path.with_suffix(".json")]
                path.with_suffix(".json").write_text(json.dumps({"index": name}))
            except OSError:
                continue  # no place for sockets here: the command line does without
        yield listeners
    finally:
        for listener in listeners:
            listener.close()
        for file in files:
            with suppress(OSError):
                file.unlink()


def _connected(path: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(_CONNECT)
        connected.connect(str(path))
        connected.settimeout(_ANSWER)
    except OSError:
        connected.close()
        raise
    return connected


def _listening(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid() or path.parent.stat().st_mode & 0o077:
        raise OSError(f"{path.parent}: others can enter it")
    with suppress(FileNotFoundError):
        path.unlink()  # of a server that was killed
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _socket_path(index: str | os.PathLike[str] | None) -> Path:
    """By the index's address; a folder's is its path without links."""
    address = "" if index is None else os.fspath(index)
    if address and "://" not in address:
        address = ",".join(os.path.realpath(part) for part in address.split(","))
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/orienteer-{os.getuid()}"
    return Path(runtime) / "orienteer" / f"{blake2b(address.encode(), digest_size=10).hexdigest()}.sock"


def _enabled() -> bool:
    return hasattr(socket, "AF_UNIX") and os.environ.get(SWITCH, "1") != "0"
