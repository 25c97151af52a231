"""How the engine calls its shards: in threads of this process, or each in a process of its own.

`ray_transport.py` is the third way, one actor of a Ray cluster per shard.
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
    """A shard's process that ended, and ended again after a restart."""


class ShardTransport(Protocol):
    """Calls methods of all shards."""

    @property
    def shares_memory(self) -> bool:
        """Whether an array given to all shards is the same one for all."""
        ...

    def __len__(self) -> int: ...

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard in parallel, each with its own arguments; results in the shards' order."""
        ...

    def close(self) -> None: ...


class LocalTransport:
    """Shards in this process, one thread per shard where there is much to do: the kernels release the GIL.

    A few queries go through the shards one after another: each starts with the k-th score of those before it. So does
    what is done sooner than a thread has started.
    """

    shares_memory = True

    def __init__(self, paths: Sequence[Path | str]):
        self._shards = [Shard(path) for path in paths]
        self._pool = ThreadPoolExecutor(max(1, len(paths)), "shard")

    def __len__(self) -> int:
        return len(self._shards)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        many = method == "id_hashes" or (method in ("search", "refine") and len(arguments[0][0]) >= len(self._shards))
        if len(self._shards) == 1 or not many:
            return [getattr(shard, method)(*each) for shard, each in zip(self._shards, arguments, strict=True)]
        calls = [
            self._pool.submit(getattr(shard, method), *each)
            for shard, each in zip(self._shards, arguments, strict=True)
        ]
        return [call.result() for call in calls]

    def close(self) -> None:
        self._pool.shutdown()


class ProcessTransport:
    """One process per shard. One that ends is restarted and called again: shards only read."""

    shares_memory = False

    def __init__(self, paths: Sequence[Path | str]):
        self._context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
        self._paths = [str(path) for path in paths]
        self._totals: tuple[Any, ...] | None = None
        self._lock = threading.Lock()  # a pipe carries one call at a time
        self._processes = [self._start(path) for path in self._paths]

    def __len__(self) -> int:
        return len(self._paths)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self._lock:
            if method == "set_totals":
                self._totals = arguments[0]
            # Most calls are the same for every shard: pickled once.
            distinct = {id(each): each for each in arguments}
            pickled = {key: ForkingPickler.dumps((method, each)) for key, each in distinct.items()}
            calls = [pickled[id(each)] for each in arguments]
            sent = [self._send(at, call) for at, call in enumerate(calls)]
            answers = [
                self._receive(at, method, call, ok) for at, (call, ok) in enumerate(zip(calls, sent, strict=True))
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
            if self._totals is not None and method != "set_totals":
                pipe.send(("set_totals", self._totals))
                pipe.recv()
            pipe.send_bytes(call)
            return pipe.recv()
        except (EOFError, OSError):
            return ShardLostError(
                f"the process of the shard {self._paths[at]} ended twice; is there memory enough for it?"
            )


def _serve(path: str, pipe: Connection) -> None:
    """The main loop of a shard's process, until the pipe is closed."""
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
