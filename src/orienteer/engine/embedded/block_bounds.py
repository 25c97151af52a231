"""Bounds of long lists by block of passages: what plain search passes blocks over by.

A list's bound in a block is the highest 1 - 1 / saturation of its postings there, in 255ths, rounded up; 0 where it
has none. A weight makes a score of it. A row of the table is made when its list is first searched for, at the cost of
walking the list once, and kept: a byte for 16 passages, for some 2,700 lists at most. It is no part of an index on
disk, since it depends on the statistics that the index scores with.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.search import BLOCKS, STEPS, WINDOW, fill_steps

# One for all indexes, since rows are seldom made: an index with a lock of its own could not be copied.
_FILLING = Lock()


class BlockBounds:
    """`steps` uint8 [long lists, blocks]; a row is empty until `fill` is called with its list."""

    def __init__(self, size: int, lists: int, saturation: NDArray[np.float32]):
        self.steps = np.zeros((lists, -(-size // WINDOW) * BLOCKS), np.uint8)
        share = 1.0 - 1.0 / saturation.astype(np.float64)
        self._steps_of = np.maximum(np.ceil(share * STEPS), 1).astype(np.uint8)  # [codes]
        self._filled = bytearray(lists)

    def fill(self, row: int, start: int, end: int, documents: NDArray[Any], codes: NDArray[Any]) -> None:
        """Make the row of the list at start..end, where it is not made yet."""
        if not self._filled[row]:
            with _FILLING:
                fill_steps(documents, codes, start, end, self._steps_of, self.steps[row])
                self._filled[row] = 1
