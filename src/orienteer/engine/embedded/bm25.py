"""Lucene's BM25 to the float32 bit: length norms, idf, the norm cache, the score of a term.

Every step is rounded where Lucene rounds it, so the order and the type of each operation matter.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(1.2)
B = np.float32(0.75)

_EXACT = 24  # Lucene's SmallFloat keeps so many code points free of its 3-bit mantissa


def _length(code: int) -> int:
    """The field length that a norm byte stands for (Lucene's `SmallFloat.byte4ToInt`)."""
    if code < _EXACT:
        return code
    exponent, mantissa = divmod(code - _EXACT, 8)
    return _EXACT + (mantissa if exponent == 0 else (mantissa | 8) << (exponent - 1))


_WHOLE_LENGTHS = np.array([_length(code) for code in range(256)], dtype=np.int64)

LENGTHS: NDArray[np.float32] = _WHOLE_LENGTHS.astype(np.float32)  # [256] norm byte -> field length


def encode_length(n: int) -> int:
    """The norm byte of a field of n terms: the greatest length on the table that is not above n."""
    return int(np.searchsorted(_WHOLE_LENGTHS, n, side="right")) - 1


def encode_lengths(lengths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """`encode_length` of each of many."""
    return (np.searchsorted(_WHOLE_LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def idf(doc_count: int, df: int) -> np.float32:
    """How rare a term is: ln(1 + (N - df + 0.5) / (df + 0.5)), in double, then cast."""
    return np.float32(math.log(1 + (doc_count - df + 0.5) / (df + 0.5)))


def norm_cache(
    sum_total_tf: float, doc_count: int, k1: np.float32 | None = None, b: np.float32 | None = None
) -> NDArray[np.float32]:
    """[256] norm byte -> 1 / (k1 ((1 - b) + b length / avgdl)), over the passages that have the field."""
    k1, b = K1 if k1 is None else k1, B if b is None else b
    average = np.float32(sum_total_tf / doc_count) if doc_count else np.float32(1)
    with np.errstate(divide="ignore"):  # b = 1 and a length of 0, which no posting has
        return np.float32(1) / (k1 * ((np.float32(1) - b) + b * LENGTHS / average))


def term_score(weight: np.float32, freq: int, inverse_norm: np.float32) -> np.float32:
    """A term's share of a passage's score; `weight` is boost times idf. Lucene leaves out (k1 + 1)."""
    return weight - weight / (np.float32(1) + np.float32(freq) * inverse_norm)
