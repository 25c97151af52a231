"""Where the shards of a collection live: in this process, or each in a process of its own.

`sharded_ray.py` has the third place, an actor of a cluster for each.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Protocol

from orienteer.engine.sharded.shard import Shard
from orienteer.errors import OrienteerError


class ShardLostError(OrienteerError):
    """A shard's process that ended, and ended again when it was started anew."""


class Fleet(Protocol):
    """Where the shards live."""

    def __len__(self) -> int: ...

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, each with its own arguments, all at once; answers in the shards' order."""
        ...

    def close(self) -> None: ...


class LocalFleet:
    """Shards in this process, each asked in a thread of its own: the kernels let go of Python's lock."""

    def __init__(self, paths: Sequence[Path | str]):
        self._shards = [Shard(path) for path in paths]
        self._pool = ThreadPoolExecutor(max(1, len(paths)), "shard")

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(self._shards) == 1:
            return [getattr(self._shards[0], method)(*arguments[0])]
        calls = [
            self._pool.submit(getattr(shard, method), *own) for shard, own in zip(self._shards, arguments, strict=True)
        ]
        return [call.result() for call in calls]

    def close(self) -> None:
        self._pool.shutdown()


class ProcessFleet:
    """Shards in processes of their own. One that ends is started anew and asked again: shards only read."""

    def __init__(self, paths: Sequence[Path | str]):
        self._context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks as they happen to be
        self._paths = [str(path) for path in paths]
        self._totals: tuple[Any, ...] | None = None
        self._lock = threading.Lock()  # a pipe carries one conversation
        self._processes = [self._start(path) for path in self._paths]

    def __len__(self) -> int:
        return len(self._paths)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self._lock:
            if method == "join":
                self._totals = arguments[0]
            # Shards are mostly asked the same: that is written once, not once for each.
            known = {id(own): own for own in arguments}
            written = {name: ForkingPickler.dumps((method, own)) for name, own in known.items()}
            calls = [written[id(own)] for own in arguments]
            sent = [self._send(at, call) for at, call in enumerate(calls)]
            answers = [
                self._receive(at, method, call, whole) for at, (call, whole) in enumerate(zip(calls, sent, strict=True))
            ]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def close(self) -> None:
        for process, pipe in self._processes:
            pipe.close()
            process.join(5)
            if process.is_alive():
                process.kill()

    def _start(self, path: str) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(path, theirs), daemon=True, name=f"shard {path}")
        process.start()
        theirs.close()
        return process, ours

    def _send(self, at: int, call: memoryview) -> bool:
        try:
            self._processes[at][1].send_bytes(call)
        except OSError:
            return False
        return True

    def _receive(self, at: int, method: str, call: memoryview, sent: bool) -> Any:
        try:
            if sent:
                return self._processes[at][1].recv()
        except (EOFError, OSError):
            pass
        try:
            process, pipe = self._processes[at]
            process.kill()
            pipe.close()
            process, pipe = self._processes[at] = self._start(self._paths[at])
            if self._totals is not None and method != "join":
                pipe.send(("join", self._totals))
                pipe.recv()
            pipe.send_bytes(call)
            return pipe.recv()
        except (EOFError, OSError):
            return ShardLostError(
                f"the process of the shard {self._paths[at]} ended twice; is there memory enough for it?"
            )


def _serve(path: str, pipe: Connection) -> None:
    """A shard's process: answers until nobody asks any more."""
    shard: Shard | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        answer: Any
        try:
            shard = shard or Shard(path)
            answer = getattr(shard, method)(*arguments)
        except Exception as error:
            answer = error
        pipe.send(answer)
