"""Chunks of work on many workers: processes of this machine, or a Ray cluster.

A worker is made once and then given one chunk after another, so that indexes and models are opened once each. Chunks
and results travel by pickle between our own processes; nothing is pickled to a file. If a worker dies,
another one takes its chunk. A chunk that kills worker after worker ends the run with an error, and so
does an exception inside the work, at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

from orienteer.errors import MissingExtraError, OrienteerError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Work = Callable[[Chunk], Result]
MakeWork = Callable[[], Work[Chunk, Result]]  # picklable; called once in every worker

TRIES = 3  # workers that one chunk may cost
_ALIVE = 1.0  # seconds between checks that the parent process is alive


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a long work is done; `seconds_left` is None while nothing was timed."""

    done: int
    total: int
    seconds_left: float | None = None


class WorkerError(OrienteerError):
    """A chunk that no worker could do, or a cluster that cannot be reached."""


def run_chunks(
    make_work: MakeWork[Chunk, Result], chunks: Sequence[Chunk], *, workers: int = 1, ray: str | None = None
) -> Iterator[tuple[int, Result]]:
    """(number, result) of every chunk, each as soon as it is done; `in_order` brings them into their order.

    A chunk is read from `chunks` when a worker takes it, so a custom Sequence may compute it only then.

    workers   processes, on Ray actors; 0: one for every processor. One, and no Ray: the work is done in this process
    ray       address of a Ray cluster, "local" to start one on this machine, None for processes
    """
    if workers < 0:
        raise WorkerError(f"{workers} workers; expected 1 or more, or 0 for one on every processor")
    if not chunks:
        return iter(())
    if ray is not None:
        return _run_on_ray(make_work, chunks, workers, ray)
    workers = workers or len(os.sched_getaffinity(0))
    if workers == 1:
        return _run_here(make_work, chunks)
    return _run_in_processes(make_work, chunks, min(workers, len(chunks)))


def in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """The results in the order of their chunks."""
    waiting: dict[int, Result] = {}
    following = 0
    for number, result in results:
        waiting[number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def _run_here(make_work: MakeWork[Chunk, Result], chunks: Sequence[Chunk]) -> Iterator[tuple[int, Result]]:
    work = make_work()
    for number in range(len(chunks)):
        yield number, work(chunks[number])


class _Queue:
    """Numbers of the chunks that wait for a worker, and how many workers each chunk has killed."""

    def __init__(self, size: int) -> None:
        self._waiting = deque(range(size))
        self._lost = [0] * size

    def take(self) -> int | None:
        return self._waiting.popleft() if self._waiting else None

    def give_back(self, number: int, how: str) -> None:
        """The chunk's worker died; the chunk is next again."""
        self._lost[number] += 1
        if self._lost[number] == TRIES:
            raise WorkerError(f"chunk {number} has cost {TRIES} workers, the last one {how}; see what it holds")
        self._waiting.appendleft(number)


def _run_in_processes(
    make_work: MakeWork[Chunk, Result], chunks: Sequence[Chunk], workers: int
) -> Iterator[tuple[int, Result]]:
    queue = _Queue(len(chunks))
    pool: dict[Connection, _Process] = {}
    try:
        for _ in range(workers):
            _start_worker(pool, make_work, queue, chunks)
        while pool:
            for ready in wait(list(pool)):
                assert isinstance(ready, Connection)
                worker = pool.pop(ready)
                try:
                    result = worker.result()
                except EOFError:
                    queue.give_back(worker.number, worker.ending())
                    _start_worker(pool, make_work, queue, chunks)
                    continue
                number = worker.number
                if worker.give(queue, chunks):
                    pool[ready] = worker
                yield number, result
    finally:
        for worker in pool.values():
            worker.end()


def _start_worker(pool: dict[Connection, _Process], make_work: Any, queue: _Queue, chunks: Sequence[Any]) -> None:
    """Starts one more worker, if there is a chunk for it."""
    worker = _Process(make_work)
    if worker.give(queue, chunks):
        pool[worker.connection] = worker


class _Process:
    """A worker process and the number of the chunk that it has."""

    def __init__(self, make_work: Any) -> None:
        # A fresh interpreter: a fork would inherit threads and locks that do not survive it.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make_work, theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.number = -1

    def give(self, queue: _Queue, chunks: Sequence[Any]) -> bool:
        """Sends the next chunk; without one the worker ends."""
        number = queue.take()
        if number is None:
            self.end()
            return False
        self.number = number
        with suppress(OSError):  # a dead worker is noticed when its result is read
            self.connection.send(chunks[number])
        return True

    def result(self) -> Any:
        """Its result; EOFError where it died, its own error where the work raised one."""
        try:
            good, result = self.connection.recv()
        except (OSError, EOFError):
            raise EOFError from None
        if not good:
            self.end()
            raise result
        return result

    def ending(self) -> str:
        self._process.join(timeout=5)
        code = self._process.exitcode
        self.end()
        if code is not None and code < 0:
            return f"by {signal.Signals(-code).name}"
        return f"with exit code {code}"

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(make_work: Any, connection: Connection, parent: int) -> None:
    """The main loop of a worker: chunks in, results out, until the pipe is closed or the parent is dead."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too and ends its workers
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    answer: tuple[bool, Any]
    work = None
    with suppress(EOFError, OSError):
        while True:
            chunk = connection.recv()
            try:
                work = work or make_work()
                answer = True, work(chunk)
            except Exception as error:
                answer = False, _portable(error)
            connection.send(answer)


def _exit_with(parent: int) -> None:
    """A parent that was killed cannot end its workers."""
    while os.getppid() == parent:
        time.sleep(_ALIVE)
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """Our own errors as they are, if they can be pickled; any other as text with its traceback."""
    if isinstance(error, OrienteerError):
        try:
            return deepcopy(error)  # rebuilt from its arguments, as by unpickling
        except Exception:
            return WorkerError(str(error))
    return WorkerError(f"a worker failed: {''.join(traceback.format_exception(error)).strip()}")


class _Actor(Protocol):
    """What a Ray actor of ours offers."""

    ready: Any
    work: Any


def _run_on_ray(
    make_work: MakeWork[Chunk, Result], chunks: Sequence[Chunk], workers: int, address: str
) -> Iterator[tuple[int, Result]]:
    ray = connect_ray(address)
    actor_class = ray.remote(num_cpus=1, max_restarts=0)(_RayWorker)
    count = workers or int(ray.cluster_resources().get("CPU", 1))
    queue = _Queue(len(chunks))
    # Every task of every actor under way; number -1 asks whether it is there. An actor that the cluster has no room
    # for (a node has gone) answers when there is room again, and holds no chunk until then.
    tasks: dict[Any, tuple[_Actor, int]] = {}

    def start_actor() -> None:
        actor = actor_class.remote(make_work, Path.cwd())
        tasks[actor.ready.remote()] = (actor, -1)

    for _ in range(min(count, len(chunks))):
        start_actor()
    left = len(chunks)
    try:
        while left:
            [done], _ = ray.wait(list(tasks), num_returns=1)
            actor, number = tasks.pop(done)
            try:
                good, result = ray.get(done)
            except ray.exceptions.RayActorError as error:
                if number >= 0:
                    queue.give_back(number, f"with {type(error).__name__}")
                start_actor()
                continue
            if not good:
                raise result
            following = queue.take()
            if following is not None:
                tasks[actor.work.remote(chunks[following])] = (actor, following)
            else:
                _idle(tasks, actor)
            if number >= 0:
                left -= 1
                yield number, result
    finally:
        for actor, _ in tasks.values():
            with suppress(Exception):
                ray.kill(actor)


def _idle(tasks: dict[Any, tuple[_Actor, int]], actor: _Actor) -> None:
    """No chunk waits now, but one may come back: the actor polls."""
    tasks[actor.ready.remote(0.2)] = (actor, -1)


class _RayWorker:
    """The actor; `make_work` runs with the first chunk."""

    def __init__(self, make_work: Any, folder: Path) -> None:
        self._make_work = make_work
        self._work: Any = None
        with suppress(OSError):  # an agent's checkpoint may be named relative to where the driver stands
            os.chdir(folder)

    def ready(self, after: float = 0.0) -> tuple[bool, None]:
        time.sleep(after)
        return True, None

    def work(self, chunk: Any) -> tuple[bool, Any]:
        try:
            self._work = self._work or self._make_work()
            return True, self._work(chunk)
        except Exception as error:
            return False, _portable(error)


def connect_ray(address: str) -> Any:
    """The module `ray`, connected to the cluster at `address`; "local" starts one on this machine."""
    try:
        ray = import_module("ray")
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    if not ray.is_initialized():
        try:
            ray.init(address=None if address == "local" else address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # Ray has no class of its own for this
            reason = " ".join(str(error).split())
            raise WorkerError(f"no Ray cluster at {address!r}: {reason}; start one with `ray start`") from None
    return ray
