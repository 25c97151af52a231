"""One pass over the terms of all passages within sight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import kernel

Floats = NDArray[np.float32]
NARROW, WIDE = 16, 40  # words of a window


@kernel
def scan(
    flat: NDArray[np.int64],  # numbers of terms, passage after passage
    ends: NDArray[np.int64],  # [passages]
    column: NDArray[np.int32],  # by number: the question's terms first, others of interest next; -1
    columns: int,
    piece: NDArray[np.int32],  # by number: row of `alike`; below 0: none
    kind: NDArray[np.int8],  # by number
    share: Floats,  # [question's terms]: of its idf, 1 in all
    alike: NDArray[np.uint8],  # [rows, question's terms]: 255 for the same word
    rarest: NDArray[np.int32],  # [answers]: column of its rarest term; -1
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Of each passage:

    counts    [columns]
    likest    [question's terms]: the nearest word that it has, 0 to 1
    covered   [2]: the most of the question in a narrow window and in a wide one
    near      [answers]: the most of it around an answer
    figures   [2]: numbers, years
    """
    passages, asked, answers = len(ends), len(share), len(rarest)
    counts = np.zeros((passages, columns), np.float32)
    likest = np.zeros((passages, asked), np.uint8)
    covered = np.zeros((passages, 2), np.float32)
    near = np.zeros((passages, answers), np.float32)
    figures = np.zeros((passages, 2), np.float32)
    last = np.empty(asked, np.int64)
    longest, begin = 0, 0
    for end in ends:
        longest, begin = max(longest, end - begin), end
    wide = np.empty(longest, np.float32)  # what the window that ends here covers
    begin = 0
    for row in range(passages):
        last[:] = -WIDE
        for place in range(begin, ends[row]):
            at, number = place - begin, flat[place]
            if kind[number] > 0:
                figures[row, kind[number] - 1] += 1
            if piece[number] >= 0:
                for q in range(asked):
                    likest[row, q] = max(likest[row, q], alike[piece[number], q])
            found = column[number]
            if found >= 0:
                counts[row, found] += 1
                if found < asked:
                    last[found] = at
                    likest[row, found] = 255
            inner, outer = np.float32(0), np.float32(0)
            for q in range(asked):
                if last[q] > at - WIDE:
                    outer += share[q]
                    if last[q] > at - NARROW:
                        inner += share[q]
            wide[at] = outer
            covered[row, 0] = max(covered[row, 0], inner)
            covered[row, 1] = max(covered[row, 1], outer)
        for answer in range(answers):
            if rarest[answer] >= 0 and counts[row, rarest[answer]] > 0:
                for place in range(begin, ends[row]):
                    if column[flat[place]] == rarest[answer]:
                        around = min(place + WIDE // 2, ends[row]) - 1 - begin
                        near[row, answer] = max(near[row, answer], wide[max(around, place - begin)])
        begin = ends[row]
    return counts, likest * np.float32(1 / 255), covered, near, figures
