"""The edit distance of one word to every term of the vocabulary, in one pass."""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import kernel


@kernel
def edit_distances(terms, ends, word, most, distances):
    """Fills distances uint8 [terms]: edits from `word` to each term, `most` + 1 where it takes more.

    An edit inserts, deletes or replaces a byte, or swaps two neighbours (optimal string alignment). `terms` are the
    bytes of all terms, `ends` where each ends. Only a band of 2 · most + 1 cells a row is computed.
    """
    size = word.size
    far = most + 1
    before = np.empty(size + 1, np.int64)
    last = np.empty(size + 1, np.int64)
    row = np.empty(size + 1, np.int64)
    for number in range(distances.size):
        start = ends[number]
        length = ends[number + 1] - start
        if abs(length - size) > most:
            distances[number] = far
            continue
        for j in range(size + 1):
            last[j] = j
        best = 0
        for i in range(1, length + 1):
            for j in range(size + 1):
                row[j] = far
            row[0] = min(i, far)
            best = row[0]
            letter = terms[start + i - 1]
            for j in range(max(1, i - most), min(size, i + most) + 1):
                least = last[j - 1] + (letter != word[j - 1])
                least = min(least, last[j] + 1, row[j - 1] + 1)
                if i > 1 and j > 1 and letter == word[j - 2] and terms[start + i - 2] == word[j - 1]:
                    least = min(least, before[j - 2] + 1)
                row[j] = min(least, far)
                best = min(best, row[j])
            if best > most:
                break
            for j in range(size + 1):
                before[j] = last[j]
                last[j] = row[j]
        distances[number] = far if best > most else min(last[size], far)
