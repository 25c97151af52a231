"""What the arrays of an index must be to each other, so that no kernel reads or writes outside of them.

An index may come from a stranger, with checksums that fit. Three kinds of checks make it safe to search:

at opening       lengths, rising ends, largest values: all that grows with passages or terms; some ten milliseconds for
                 a million passages (`check_structure`)
at first use     a list of postings, when a query first names its term (`kernels/checks.py`)
where it is free the stream's term numbers, inside the kernel that looks them up

Whatever is wrong is an `IndexCorruptError`. Files that change while an index is open are not covered: see SECURITY.md.
To add an array: a row in `store.ARRAYS`, and below what its length and its values must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.search import WINDOW
from orienteer.engine.embedded.kernels.stream import SPARE
from orienteer.errors import IndexCorruptError

MAX_FREQUENCY = 1 << 20  # of a term in one passage
MAX_PASSAGES = (1 << 31) - 2  # they are numbered in int32
TEXT_BLOCK = 6  # passages that are compressed together: see `stored_text.py`
DIGEST = 16  # bytes
SMALL_CODES = 60_000  # codes of 16 bits: the rest is for phrases of a query, whose frequencies no single term has

Arrays = Mapping[str, NDArray[Any]]


def damaged(array: str, detail: str) -> IndexCorruptError:
    return IndexCorruptError(f"the index is damaged: {array}: {detail}; build the index again")


def check_structure(counts: Mapping[str, int], arrays: Arrays) -> None:
    """Raises IndexCorruptError where arrays do not fit each other; reads no postings, no stream, no text."""
    _check_counts(counts, arrays)
    _check_lengths(counts, arrays)
    for name, ending, first in (
        ("offsets", "documents", 0), ("term_ends", "terms", 0), ("id_ends", "ids", 0),
        ("text_ends", "text", None),
    ):  # fmt: skip
        _check_ends(name, arrays[name], arrays[ending].size, first)
    _check_stream(arrays["stream"], arrays["stream_ends"], arrays["ranked"])
    _check_metadata(counts, arrays)
    _check_titles(arrays["title_positions"], arrays["stream_ends"])
    _check_id_slots(arrays["id_slots"], counts["passages"])
    _check_codes(counts, arrays)


def check_deleted(deleted: NDArray[Any], passages: int) -> None:
    """The numbers of deleted passages of a base rise, and are those of its passages."""
    if deleted.size and (deleted[0] < 0 or deleted[-1] >= passages or (deleted[1:] <= deleted[:-1]).any()):
        raise damaged("deleted", "its values do not rise, or name no passage of the base")


def _check_metadata(counts: Mapping[str, int], arrays: Arrays) -> None:
    ends, letters = arrays.get("metadata_ends"), arrays.get("metadata")
    if ends is None and letters is None:
        return
    if ends is None or letters is None or ends.size != counts["passages"]:
        raise damaged("metadata_ends", "it does not fit the passages")
    _check_ends("metadata_ends", ends, letters.size, None)


def _check_counts(counts: Mapping[str, int], arrays: Arrays) -> None:
    passages, bits = counts["passages"], 32 * arrays["stream"].size
    if passages > MAX_PASSAGES:
        raise damaged("manifest", f"{passages:,} passages, at most {MAX_PASSAGES:,} are possible")
    for field in ("contents", "title"):
        having, length = counts[f"{field}_passages"], counts[f"{field}_length"]
        if having > passages or not having <= length <= bits or (length and not having):
            raise damaged("manifest", f"{having:,} passages with a {field} of {length:,} terms in all")


def _check_lengths(counts: Mapping[str, int], arrays: Arrays) -> None:
    passages, terms, postings = counts["passages"], counts["terms"], counts["postings"]
    windows = -(-passages // WINDOW)
    long_lists = arrays["long_lists"].size
    expected = {
        "best_codes": 2 * terms, "codes": postings, "documents": postings, "id_ends": passages + 1,
        "norms": 2 * passages, "offsets": 2 * terms + 1, "passages": DIGEST, "ranked": terms, "stream_ends": passages,
        "term_ends": terms + 1, "text_ends": -(-passages // TEXT_BLOCK), "title_positions": passages,
        "window_best": long_lists * windows, "window_starts": long_lists * (windows + 1),
    }  # fmt: skip
    for name, length in expected.items():
        if arrays[name].size != length:
            raise damaged(name, f"{arrays[name].size:,} values, expected {length:,}")


def _check_ends(name: str, ends: NDArray[Any], size: int, first: int | None) -> None:
    """Ends that rise, from `first` where there is one, to exactly `size`."""
    if ends.size == 0:
        if size:
            raise damaged(name, f"it ends at 0, expected {size:,}")
        return
    if (first is not None and ends[0] != first) or ends[0] < 0:
        raise damaged(name, f"it starts with {int(ends[0])}")
    if ends[-1] != size:
        raise damaged(name, f"it ends at {int(ends[-1]):,}, expected {size:,}")
    if (ends[1:] < ends[:-1]).any():
        raise damaged(name, "its values fall where they should rise")


def _check_stream(stream: NDArray[Any], ends: NDArray[Any], ranked: NDArray[Any]) -> None:
    """Passages are bits of it, with spare words after the last, and ranks are those of terms."""
    last = int(ends[-1]) if ends.size else 0
    if stream.size != -(-last // 32) + SPARE:
        raise damaged("stream_ends", f"it ends at bit {last:,} of {stream.size:,} words")
    _check_ends("stream_ends", ends, last, None)
    if ranked.size and (ranked.min() < 0 or ranked.max() >= ranked.size):
        raise damaged("ranked", "a term that is not in the vocabulary")


def _check_titles(positions: NDArray[Any], stream_ends: NDArray[Any]) -> None:
    """A title is a part of its passage, each of whose positions takes a bit or more."""
    if positions.size and (
        positions.min() < 0
        or positions[0] > stream_ends[0]
        or (positions[1:] > stream_ends[1:] - stream_ends[:-1]).any()
    ):
        raise damaged("title_positions", "a title is longer than its passage")


def _check_id_slots(slots: NDArray[Any], passages: int) -> None:
    """Every passage has a slot, and some are free, so that looking up an unknown id ends."""
    if slots.size <= passages or slots.size & (slots.size - 1):
        raise damaged("id_slots", f"{slots.size:,} slots for {passages:,} passages, expected a power of two above")
    if slots.min() < 0 or slots.max() > passages or np.count_nonzero(slots) != passages:
        raise damaged("id_slots", "it does not name every passage once")


def _check_codes(counts: Mapping[str, int], arrays: Arrays) -> None:
    """Codes name pairs, bounds are codes, and pairs are what BM25 can compute with."""
    terms = counts["terms"]
    pairs, best, long_lists = arrays["pairs"], arrays["best_codes"], arrays["long_lists"]
    if pairs.size % 3 or (terms and not pairs.size):
        raise damaged("pairs", f"{pairs.size:,} values, expected three for each code")
    rows = pairs.reshape(-1, 3).astype(np.int64)
    if not arrays["codes"].dtype == best.dtype == arrays["window_best"].dtype:
        raise damaged("codes", "its type is not that of best_codes and window_best")
    if best.dtype.itemsize == 2 and len(rows) > SMALL_CODES:
        raise damaged("pairs", f"{len(rows):,} codes of 16 bits, at most {SMALL_CODES:,} are possible")
    if len(rows):
        field, frequency, norm = rows.T
        if field.max() > 1 or norm.max() > 255 or frequency.min() < 1 or frequency.max() > MAX_FREQUENCY:
            raise damaged("pairs", "a field, frequency or norm out of range")
        packed = np.sort(field << 40 | frequency << 8 | norm)
        if (packed[1:] == packed[:-1]).any():
            raise damaged("pairs", "two codes for one pair")
    if best.size and best.max() >= len(rows):
        raise damaged("best_codes", f"a code of {int(best.max()):,}, there are {len(rows):,}")
    if arrays["window_best"].size and arrays["window_best"].max() > len(rows):
        raise damaged("window_best", f"a code of {int(arrays['window_best'].max()) - 1:,}, there are {len(rows):,}")
    if long_lists.size:
        if long_lists[0] < 0 or long_lists[-1] >= 2 * terms or (long_lists[1:] <= long_lists[:-1]).any():
            raise damaged("long_lists", "its values do not rise, or name no list")
        offsets = arrays["offsets"]
        if (offsets[long_lists + 1] == offsets[long_lists]).any():
            raise damaged("long_lists", "one of them is empty")
