"""The score of every passage for one query: the whole ranking, not its top k."""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import kernel

WINDOW = 1 << 14  # passages a window: their sums stay in the processor's cache


@kernel
def score_all(
    documents, codes, extra_documents, extra_codes, saturation,
    must_start, must_end, must_extra, must_weight,
    start, end, extra, weight,
    not_start, not_end, not_extra, allowed,
    scores,
):  # fmt: skip
    """Fills scores float32 [passages]; -inf where the query does not return the passage.

    Sums are in double and rounded where Lucene rounds: the required clauses, the optional ones, then both.
    """
    size = scores.size
    n_must = must_start.size
    optional, required = np.zeros(WINDOW), np.zeros(WINDOW)
    matched = np.zeros(WINDOW, np.int32)  # MUST clauses that hold; where there is no MUST, SHOULD clauses
    required_at, optional_at, not_at = must_start.copy(), start.copy(), not_start.copy()
    least = max(n_must, 1)
    filtered = allowed.size > 0
    for first in range(0, size, WINDOW):
        limit = min(first + WINDOW, size)
        for i in range(n_must):
            lists = extra_documents if must_extra[i] else documents
            list_codes = extra_codes if must_extra[i] else codes
            w = must_weight[i]
            at, stop = required_at[i], must_end[i]
            while at < stop and lists[at] < limit:
                place = np.int64(lists[at]) - first
                required[place] += w - w / saturation[list_codes[at]]
                matched[place] += 1
                at += 1
            required_at[i] = at
        for i in range(start.size):
            lists = extra_documents if extra[i] else documents
            list_codes = extra_codes if extra[i] else codes
            w = weight[i]
            at, stop = optional_at[i], end[i]
            while at < stop and lists[at] < limit:
                place = np.int64(lists[at]) - first
                optional[place] += w - w / saturation[list_codes[at]]
                if n_must == 0:
                    matched[place] += 1
                at += 1
            optional_at[i] = at
        for i in range(not_start.size):
            lists = extra_documents if not_extra[i] else documents
            at, stop = not_at[i], not_end[i]
            while at < stop and lists[at] < limit:
                matched[np.int64(lists[at]) - first] = -1
                at += 1
            not_at[i] = at
        for place in range(limit - first):
            if matched[place] >= least and (not filtered or allowed[first + place]):
                scores[first + place] = np.float32(np.float32(required[place]) + np.float32(optional[place]))
            else:
                scores[first + place] = -np.inf
        optional[:] = 0.0
        required[:] = 0.0
        matched[:] = 0
