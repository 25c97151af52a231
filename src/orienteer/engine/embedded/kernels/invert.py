"""From the stream of term numbers to postings: a counting sort by term, one range of terms at a time.

A *list* is the postings of one term in one field; list number = field * terms + term (0 contents, 1 title).
"""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import kernel


@kernel
def count_documents(stream, ends, title_positions, frequencies, last, lengths, totals):
    """Add each list's document frequency, each passage's field lengths, each field's passages and terms.

    frequencies int64 [2 * terms]; last int32 [2 * terms], all -1; lengths int64 [2, passages];
    totals int64 [2, 2]: passages that have the field, terms in it.
    """
    terms = frequencies.size // 2
    begin = 0
    for passage in range(ends.size):
        title_end = begin + title_positions[passage]
        for i in range(begin, ends[passage]):
            term = stream[i]
            if term < 0:
                continue
            lengths[0, passage] += 1
            if last[term] != passage:
                last[term] = passage
                frequencies[term] += 1
            if i < title_end:
                lengths[1, passage] += 1
                if last[terms + term] != passage:
                    last[terms + term] = passage
                    frequencies[terms + term] += 1
        begin = ends[passage]
        for field in range(2):
            if lengths[field, passage] > 0:
                totals[field, 0] += 1
                totals[field, 1] += lengths[field, passage]


@kernel
def fill_lists(stream, ends, title_positions, field, low, high, cursor, last, documents, counts):
    """Write passages and term frequencies of the lists of terms low..high of one field; returns the highest frequency.

    cursor int64 [high - low]: where each list starts in `documents`; last int32 [high - low], all -1.
    """
    highest = np.int64(0)
    begin = 0
    for passage in range(ends.size):
        stop = ends[passage] if field == 0 else begin + title_positions[passage]
        for i in range(begin, stop):
            term = stream[i] - low
            if term < 0 or stream[i] >= high:
                continue
            if last[term] != passage:
                last[term] = passage
                documents[cursor[term]] = passage
                counts[cursor[term]] = 1
                cursor[term] += 1
                if highest == 0:
                    highest = np.int64(1)
            else:
                counts[cursor[term] - 1] += 1
                if counts[cursor[term] - 1] > highest:
                    highest = np.int64(counts[cursor[term] - 1])
        begin = ends[passage]
    return highest


@kernel
def mark_pairs(documents, counts, norms, seen):
    """seen bool [highest + 1, 256]: which (frequency, norm) pairs occur."""
    for i in range(documents.size):
        seen[counts[i], norms[documents[i]]] = True


@kernel
def encode_pairs(documents, counts, norms, code_of, codes):
    """codes uint16/32: each posting's (frequency, norm) pair as its place in the table of pairs."""
    for i in range(documents.size):
        codes[i] = code_of[counts[i], norms[documents[i]]]


@kernel
def highest_codes(offsets, codes, best):
    """best [lists]: each list's highest code."""
    for number in range(offsets.size - 1):
        top = best[number]
        for i in range(offsets[number], offsets[number + 1]):
            if codes[i] > top:
                top = codes[i]
        best[number] = top


@kernel
def lists_by_window(offsets, documents, codes, lists, window, windows, starts, best):
    """Where each list stands at each window of passages, and its highest code + 1 there, 0 where it has none.

    starts uint32 [lists * (windows + 1)], from the list's own start; best [lists * windows].
    """
    for row in range(lists.size):
        start = offsets[lists[row]]
        here = 0
        for at in range(start, offsets[lists[row] + 1]):
            place = documents[at] // window
            while here < place:
                here += 1
                starts[row * (windows + 1) + here] = at - start
            if codes[at] + 1 > best[row * windows + place]:
                best[row * windows + place] = codes[at] + 1
        while here < windows:
            here += 1
            starts[row * (windows + 1) + here] = offsets[lists[row] + 1] - start


@kernel
def fill_id_slots(slots, hashes, ends, letters):
    """Hash table of passage ids: slots int32 [2^n], passage + 1 or 0. Returns two passages with one id, or (-1, -1)."""
    mask = slots.size - 1
    for passage in range(hashes.size):
        slot = np.int64(hashes[passage]) & mask
        start = ends[passage]
        size = ends[passage + 1] - start
        while slots[slot] != 0:
            other = np.int64(slots[slot]) - 1
            if hashes[other] == hashes[passage] and ends[other + 1] - ends[other] == size:
                same = True
                for i in range(size):
                    if letters[ends[other] + i] != letters[start + i]:
                        same = False
                        break
                if same:
                    return other, passage
            slot = (slot + 1) & mask
        slots[slot] = passage + 1
    return -1, -1
