"""Checks postings before any other kernel walks them."""

from __future__ import annotations

from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.engine.embedded.kernels.search import WINDOW

GOOD, WRONG_PASSAGES, WRONG_CODES, WRONG_WINDOWS = range(4)


@kernel
def check_lists(documents, codes, offsets, long_lists, window_starts, size, pairs, numbers, checked):
    """Checks the lists `numbers` that are not marked in `checked`, and marks them; returns what is wrong, and where.

    Passages rise and are below `size`, codes are below `pairs`, and a long list's windows hold its passages, each in
    its own. The offsets are known to rise to the number of postings.
    """
    windows = (size + WINDOW - 1) // WINDOW
    for i in range(numbers.size):
        number = numbers[i]
        if checked[number]:
            continue
        start, end = offsets[number], offsets[number + 1]
        if end > start:
            fine = True
            for at in range(start, end - 1):
                fine &= documents[at] < documents[at + 1]
            if not fine or documents[end - 1] >= size:
                return WRONG_PASSAGES, number
            highest = codes[start]
            for at in range(start, end):
                highest = max(highest, codes[at])
            if highest >= pairs:
                return WRONG_CODES, number
            low, high = 0, long_lists.size
            while low < high:
                middle = (low + high) >> 1
                if long_lists[middle] < number:
                    low = middle + 1
                else:
                    high = middle
            if low < long_lists.size and long_lists[low] == number:
                first = low * (windows + 1)
                if window_starts[first] != 0 or window_starts[first + windows] != end - start:
                    return WRONG_WINDOWS, number
                for window in range(windows):
                    here, after = window_starts[first + window], window_starts[first + window + 1]
                    if here > after or after > end - start:
                        return WRONG_WINDOWS, number
                    if here < after and (
                        documents[start + here] // WINDOW != window or documents[start + after - 1] // WINDOW != window
                    ):
                        return WRONG_WINDOWS, number
        checked[number] = True
    return GOOD, -1
