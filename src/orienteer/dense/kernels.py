"""Compiled loops over int8 vectors: exact search, and the sums of a static encoder."""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import inlined, kernel

_BLOCK = 64  # rows that all questions pass while they are in the cache


@inlined
def product(row, question):
    """Σ row · question in int32: int8 and int16 products that the compiler adds a register at a time."""
    total = np.int32(0)
    for at in range(question.size):
        total = np.int32(total + np.int32(np.int32(row[at]) * np.int32(question[at])))
    return total


@kernel
def search(rows, offset, scales, questions, first, allowed, numbers, scores, counts):
    """Puts the rows of one shard into the top k of every question.

    rows       int8 [rows, offset + width]: a shard's bytes; its vectors start at `offset`
    scales     float32 [rows]: value = scale · (row · question)
    questions  int16 [questions, width]
    first      the number of the first row's passage
    allowed    bool [passages]: which may be results; empty: all
    numbers    int64 [questions, k], scores float32 [questions, k], counts int64 [questions]: the top k so far, best
               first; equal scores by passage number, since shards come in their order
    """
    k = numbers.shape[1]
    filtered = allowed.size > 0
    for start in range(0, rows.shape[0], _BLOCK):
        end = min(rows.shape[0], start + _BLOCK)
        for q in range(questions.shape[0]):
            question, count = questions[q], counts[q]
            least = scores[q, k - 1] if count == k else np.float32(-np.inf)
            for row in range(start, end):
                if filtered and not allowed[first + row]:
                    continue
                value = np.float32(product(rows[row, offset:], question)) * scales[row]
                if value > least:
                    place = count if count < k else k - 1
                    while place > 0 and scores[q, place - 1] < value:
                        scores[q, place], numbers[q, place] = scores[q, place - 1], numbers[q, place - 1]
                        place -= 1
                    scores[q, place], numbers[q, place] = value, first + row
                    if count < k:
                        count += 1
                    if count == k:
                        least = scores[q, k - 1]
            counts[q] = count


@kernel
def add_pieces(pieces, ends, vectors, scales, sums):
    """sums[t] = Σ scales[p] · vectors[p] over the wordpieces p of text t, in their order.

    pieces int32 [pieces of all texts], ends int64 [texts], vectors int8 [vocabulary, width], scales float32
    [vocabulary], sums float32 [texts, width]
    """
    start = 0
    for text in range(ends.size):
        total = sums[text]
        for at in range(total.size):
            total[at] = 0
        for place in range(start, ends[text]):
            row, scale = vectors[pieces[place]], scales[pieces[place]]
            for at in range(total.size):
                total[at] += scale * np.float32(row[at])
        start = ends[text]
