"""Passages on their way into an index: batches of some megabytes, tokenised in threads, in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded.analysis import ACCEPTS, CLASS_OF, LOWER, STOP_WORDS, TRANSITIONS
from orienteer.engine.embedded.kernels import tokenize
from orienteer.errors import DataError

BATCH_BYTES = 4 << 20


class Batch:
    """Some passages as bytes; passage 0 is the stop words, so that they are numbered first."""

    def __init__(self) -> None:
        stop_words = " ".join(sorted(STOP_WORDS)).encode()
        self.ids: list[bytes] = []
        self.metadata: list[bytes] = []
        self.parts: list[bytes] = [stop_words]
        self.places = [0, 0, len(stop_words)]
        self.bytes = len(stop_words)
        self.text = b""
        self.bounds: NDArray[np.int64] = np.empty((0, 3), np.int64)

    def add(self, passage: Passage) -> None:
        title, text = passage.title.encode("utf-8", "replace"), passage.text.encode("utf-8", "replace")
        self.ids.append(passage.id.encode("utf-8", "replace"))
        self.parts += (title, text)
        start, middle = self.bytes, self.bytes + len(title)
        self.bytes = middle + len(text)
        self.metadata.append(_metadata_json(passage))
        self.places += (start, middle, self.bytes)

    def close(self) -> Batch:
        self.text = b"".join(self.parts)
        self.bounds = np.array(self.places, np.int64).reshape(-1, 3)
        self.parts, self.places = [], []
        return self


def _metadata_json(passage: Passage) -> bytes:
    if not passage.metadata:
        return b""
    try:
        return json.dumps(dict(passage.metadata), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the metadata of {passage.id!r} is no JSON: {error}; keep strings, numbers and lists"
        ) from None


def batches(passages: Iterable[Passage]) -> Iterator[Batch]:
    batch = Batch()
    for passage in passages:
        batch.add(passage)
        if batch.bytes > BATCH_BYTES:
            yield batch.close()
            batch = Batch()
    if batch.ids:
        yield batch.close()


def tokenized(batch: Batch) -> tuple[Any, ...]:
    buffer = np.frombuffer(batch.text, np.uint8)
    return tokenize.tokenize_batch(  # type: ignore[no-any-return]
        buffer, batch.bounds, CLASS_OF, LOWER, TRANSITIONS, ACCEPTS, len(STOP_WORDS)
    )


def in_order(items: Iterable[Any], work: Callable[[Any], Any], threads: int) -> Iterator[tuple[Any, Any]]:
    """(item, work(item)) in the items' order, a few at a time in threads."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Any, Future[Any]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > threads:
                item, future = waiting.popleft()
                yield item, future.result()
        for item, future in waiting:
            yield item, future.result()
