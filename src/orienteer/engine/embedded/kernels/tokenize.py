"""Text to term numbers, in bulk: the automaton of `tokenizer_rules` over UTF-8 bytes, and a hash table of terms.

A lexicon under construction is four arrays: `slots` int32 [2^n], term number + 1 or 0; `hashes` uint64 [terms];
`ends` int64 [terms + 1]; `letters` uint8, the terms' UTF-8 bytes one after another.
"""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import inlined, kernel

MAX_UNITS = 255
STOPPED = np.int32(-1)  # a removed stop word's place in the stream


@inlined
def decode(buffer, at):
    """The code point at `at` and its size in bytes; the buffer is valid UTF-8."""
    first = np.int64(buffer[at])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (np.int64(buffer[at + 1]) & 0x3F), 2
    second = np.int64(buffer[at + 1]) & 0x3F
    if first < 0xF0:
        return ((first & 0x0F) << 12) | (second << 6) | (np.int64(buffer[at + 2]) & 0x3F), 3
    third = (np.int64(buffer[at + 2]) & 0x3F) << 6
    return ((first & 0x07) << 18) | (second << 12) | third | (np.int64(buffer[at + 3]) & 0x3F), 4


@inlined
def find_or_add(slots, hashes, ends, letters, count, code, start, stop):
    """The number of the term letters[start:stop]; `count` itself if the lexicon does not hold it yet."""
    mask = slots.size - 1
    slot = np.int64(code & np.uint64(mask))
    found = count
    while slots[slot] != 0:
        number = np.int64(slots[slot]) - 1
        if hashes[number] == code and ends[number + 1] - ends[number] == stop - start:
            same = True
            for i in range(stop - start):
                if letters[ends[number] + i] != letters[start + i]:
                    same = False
                    break
            if same:
                found = number
                break
        slot = (slot + 1) & mask
    if found == count:
        slots[slot] = count + 1
        hashes[count] = code
    return found


@kernel
def rehash(slots, hashes, count):
    """Fill an empty, larger table."""
    mask = slots.size - 1
    for number in range(count):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = number + 1


@kernel
def tokenize_batch(buffer, bounds, class_of, lower, step, accepts, stops):
    """Tokenise passages buffer[bounds[i, 0]:bounds[i, 1]] (title) and [bounds[i, 1]:bounds[i, 2]] (text).

    The first `stops` terms of the batch's lexicon are the stop words, given as passage 0. Returns the stream of batch
    term numbers, the stream's end and the title's positions for each passage, and the lexicon.
    """
    size = bounds[-1, 2]
    stream = np.empty(size + 1, np.int32)
    stream_ends = np.zeros(bounds.shape[0], np.int64)
    title_positions = np.zeros(bounds.shape[0], np.int32)
    slots = np.zeros(1 << 17, np.int32)
    hashes = np.empty(1 << 16, np.uint64)
    ends = np.zeros((1 << 16) + 1, np.int64)
    letters = np.empty(size * 2 + 16, np.uint8)
    count = 0
    out = 0
    for passage in range(bounds.shape[0]):
        for part in range(2):
            at = bounds[passage, part]
            end = bounds[passage, part + 1]
            while at < end:
                state = 1
                here = at
                token_end = at
                units = 0
                while here < end:
                    point, width = decode(buffer, here)
                    units += 1 if point < 0x10000 else 2
                    state = step[state, class_of[point]]
                    if state == 0 or units > MAX_UNITS:
                        break
                    here += width
                    if accepts[state]:
                        token_end = here
                if token_end == at:
                    point, width = decode(buffer, at)
                    at += width
                    continue
                start = ends[count]
                stop = start
                code = np.uint64(14695981039346656037)
                while at < token_end:
                    point, width = decode(buffer, at)
                    at += width
                    first = stop
                    point = np.int64(lower[point])
                    if point < 0x80:
                        letters[stop] = point
                        stop += 1
                    elif point < 0x800:
                        letters[stop] = 0xC0 | (point >> 6)
                        letters[stop + 1] = 0x80 | (point & 0x3F)
                        stop += 2
                    elif point < 0x10000:
                        letters[stop] = 0xE0 | (point >> 12)
                        letters[stop + 1] = 0x80 | ((point >> 6) & 0x3F)
                        letters[stop + 2] = 0x80 | (point & 0x3F)
                        stop += 3
                    else:
                        letters[stop] = 0xF0 | (point >> 18)
                        letters[stop + 1] = 0x80 | ((point >> 12) & 0x3F)
                        letters[stop + 2] = 0x80 | ((point >> 6) & 0x3F)
                        letters[stop + 3] = 0x80 | (point & 0x3F)
                        stop += 4
                    for i in range(first, stop):
                        code = (code ^ np.uint64(letters[i])) * np.uint64(1099511628211)
                code ^= code >> np.uint64(29)
                number = find_or_add(slots, hashes, ends, letters, count, code, start, stop)
                if number == count:
                    count += 1
                    ends[count] = stop
                    if count == hashes.size:
                        slots = np.zeros(slots.size * 2, np.int32)
                        rehash(slots, hashes, count)
                        more = np.empty(count * 2, np.uint64)
                        more[:count] = hashes
                        hashes = more
                        more_ends = np.zeros(count * 2 + 1, np.int64)
                        more_ends[: count + 1] = ends
                        ends = more_ends
                stream[out] = number if number >= stops else STOPPED
                out += 1
            if part == 0:
                title_positions[passage] = out - (stream_ends[passage - 1] if passage > 0 else 0)
        stream_ends[passage] = out
    return (
        stream[:out],
        stream_ends,
        title_positions,
        hashes[:count],
        ends[: count + 1],
        letters[: ends[count]],
    )


@kernel
def merge_terms(slots, hashes, ends, letters, count, new_hashes, new_ends, new_letters, first):
    """Add a batch's terms from `first` on to the lexicon; the caller made room. Returns their numbers, the count."""
    numbers = np.empty(new_hashes.size, np.int32)
    for i in range(first, new_hashes.size):
        start = ends[count]
        size = new_ends[i + 1] - new_ends[i]
        letters[start : start + size] = new_letters[new_ends[i] : new_ends[i + 1]]
        number = find_or_add(slots, hashes, ends, letters, count, new_hashes[i], start, start + size)
        if number == count:
            count += 1
            ends[count] = start + size
        numbers[i] = number
    return numbers, count


@kernel
def renumber(stream, numbers):
    """Replace each term number in place; removed stop words stay."""
    for i in range(stream.size):
        if stream[i] >= 0:
            stream[i] = numbers[stream[i]]


@kernel
def hash_terms(ends, letters):
    """The hash that `tokenize_batch` gives each term."""
    hashes = np.empty(ends.size - 1, np.uint64)
    for number in range(hashes.size):
        code = np.uint64(14695981039346656037)
        for i in range(ends[number], ends[number + 1]):
            code = (code ^ np.uint64(letters[i])) * np.uint64(1099511628211)
        hashes[number] = code ^ (code >> np.uint64(29))
    return hashes
