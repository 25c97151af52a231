"""Decompresses files ahead of the reader, in threads, in the files' order."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread

from orienteer.data.compression import compression_of, read_blocks

# Four blocks of 16 MiB for the file being read, as many for the next: enough that two files decompress side
# by side most of the time; at most 128 MiB wait.
_BLOCKS_AHEAD = 4
_FILES_AT_ONCE = 2


class Prefetcher:
    """The blocks of a file, read in a thread of its own, at most `room` ahead of the reader."""

    def __init__(self, blocks: Generator[bytes, None, None], room: int = _BLOCKS_AHEAD) -> None:
        self._blocks = blocks
        self._ready: SimpleQueue[bytes | BaseException | None] = SimpleQueue()
        self._room = Semaphore(room)
        self._closed = False
        self._thread = Thread(target=self._fill, name="orienteer-read-ahead", daemon=True)
        self._thread.start()

    def _fill(self) -> None:
        last: BaseException | None = None
        try:
            for block in self._blocks:
                self._room.acquire()
                if self._closed:
                    return
                self._ready.put(block)
        except BaseException as error:
            last = error
        finally:
            self._blocks.close()
            self._ready.put(last)

    def __iter__(self) -> Iterator[bytes]:
        while isinstance(block := self._ready.get(), bytes):
            self._room.release()
            yield block
        if block is not None:
            raise block

    def close(self) -> None:
        """Ends the thread, wherever it is; returns when it has ended."""
        self._closed = True
        self._room.release()
        self._thread.join()


@contextmanager
def prefetch(paths: Sequence[Path]) -> Generator[Iterator[Iterator[bytes]], None, None]:
    """The blocks of each file in turn; the next file's are being made while this one's are read."""
    started: deque[Prefetcher | Generator[bytes, None, None]] = deque()

    def each() -> Iterator[Iterator[bytes]]:
        following = iter(paths)
        while True:
            for path in following:
                blocks = read_blocks(path)
                # Only decompression is worth a thread: the system itself reads plain files ahead.
                started.append(Prefetcher(blocks) if compression_of(path) else blocks)
                if len(started) == _FILES_AT_ONCE:
                    break
            if not started:
                return
            yield iter(started[0])
            started.popleft().close()

    try:
        yield each()
    finally:
        for blocks in started:
            blocks.close()
