"""Models compute at a lower priority than the threads that answer.

A model keeps every core busy for as long as somebody's passages are read. The threads that answer need a core for a
millisecond, several times a request; where all threads are equal, they wait each time until a model's thread has had
its turn. benchmarks/isolation.py measures it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_LOWER = 5  # added to the niceness: a third of the time of an equal thread


def at_lower_priority(load: Callable[[], T]) -> T:
    """The result of `load`; the threads that it starts have a lower priority, as CTranslate2's of a model.

    Only those: they run no Python, so that none of them is made to wait while it holds the interpreter. Elsewhere than
    on Linux, where a thread has no priority of its own, nothing is lowered.
    """
    with ThreadPoolExecutor(1, initializer=_lower) as thread:
        return thread.submit(load).result()


def _lower() -> None:
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER)
