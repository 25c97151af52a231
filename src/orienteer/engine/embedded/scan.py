"""Search by NumPy alone, for the first searches of a process: they need not wait for the kernels to be loaded.

The results are those of the kernels, to the bit. A scan costs a score for every passage, some ten milliseconds for
a million of them, and the kernels a twentieth of that; but loading them takes half a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels import compile as kernels
from orienteer.engine.embedded.kernels.checks import GOOD, WRONG_CODES, WRONG_PASSAGES, WRONG_WINDOWS
from orienteer.engine.embedded.kernels.search import WINDOW

if TYPE_CHECKING:
    from orienteer.engine.embedded.clauses import Clause, Compiled
    from orienteer.engine.embedded.index import Index

_SCANS = 4  # of a process, before it loads the kernels: a base, its delta, or a few shards
_done = 0


def is_time() -> bool:
    """Whether the next search should be a scan."""
    return _done < _SCANS and not kernels.is_loaded()


def scan(query: Compiled, k: int, allowed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Numbers and scores of the best k passages, equal scores by number."""
    global _done
    _done += 1
    size = query.lists.index.size
    arrays = query.lists.arrays()
    musts, matched = _sums(query.must, arrays, size)
    shoulds, any_matched = _sums(query.should, arrays, size)
    if query.must:
        scores = musts.astype(np.float32) + shoulds.astype(np.float32)
        matches = matched == len(query.must)
    else:
        scores = shoulds.astype(np.float32)
        matches = any_matched > 0
    for clause in query.must_not:
        matches[_postings(clause, arrays)[0]] = False
    if allowed.size:
        matches &= allowed
    numbers = np.flatnonzero(matches)
    scores = scores[numbers]
    if numbers.size > k:
        least = np.partition(scores, numbers.size - k)[numbers.size - k]
        numbers, scores = numbers[scores >= least], scores[scores >= least]
    order = np.lexsort((numbers, -scores))[:k]
    return numbers[order], scores[order]


def _sums(clauses: Sequence[Clause], arrays: tuple[Any, ...], size: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each passage's sum of the clauses' scores, and how many of them it matches."""
    sums, matched = np.zeros(size), np.zeros(size, np.int64)
    for clause in clauses:
        documents, codes = _postings(clause, arrays)
        sums[documents] += clause.weight - clause.weight / arrays[4][codes]
        matched[documents] += 1
    return sums, matched


def _postings(clause: Clause, arrays: tuple[Any, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    own = clause.postings
    documents, codes = arrays[2:4] if own.extra else arrays[:2]
    return documents[own.start : own.end], codes[own.start : own.end]


def find_terms(index: Index, words: Sequence[bytes]) -> NDArray[np.int64]:
    """The terms' numbers in the sorted vocabulary, -1 where it has none."""
    ends, letters = index.array("term_ends"), index.array("terms")

    def term(number: int) -> bytes:
        return letters[ends[number] : ends[number + 1]].tobytes()

    places = [bisect_left(range(index.terms), word, key=term) for word in words]
    found = [at if at < index.terms and term(at) == word else -1 for at, word in zip(places, words, strict=True)]
    return np.array(found, np.int64)


def check_list(index: Index, number: int) -> int:
    """What is wrong with a list, as `kernels.checks.check_lists` says it."""
    start, end = index.array("offsets")[number : number + 2].tolist()
    documents, codes = index.array("documents")[start:end], index.array("codes")[start:end]
    if not documents.size:
        return GOOD
    if (documents[1:] <= documents[:-1]).any() or documents[-1] >= index.size:
        return WRONG_PASSAGES
    if codes.max() >= index.array("pairs").size // 3:
        return WRONG_CODES
    longs = index.array("long_lists")
    row = int(longs.searchsorted(number))
    if row < longs.size and longs[row] == number:
        windows = -(-index.size // WINDOW)
        starts = index.array("window_starts")[row * (windows + 1) : (row + 1) * (windows + 1)]
        expected = np.searchsorted(documents, np.arange(windows + 1) * WINDOW)
        if not np.array_equal(starts, expected):
            return WRONG_WINDOWS
    return GOOD
