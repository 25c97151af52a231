"""The stream of term numbers, packed: some ten bits a position instead of 32, readable from the start of any passage.

A removed stop word is one bit, 0. A term is a 1, a class of four bits, and its place in that class: terms are ranked by
the number of passages that have them, and class c holds the next 2^WIDTHS[c] ranks. That is within a thirtieth of the
entropy of English text, and needs no table but `ranked`, which gives each rank its term.

words    uint32 [bits / 32, rounded up, + 2]: the two spare words let every read fetch a pair without a test
ends     int64 [passages]: the bit after each passage
ranked   int32 [terms]: the term of each rank
bases, widths   int64 [16]: the first rank of each class, and how many bits its places have
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.kernels.compile import inlined, kernel

# Fitted to English Wikipedia; a last class has the rest.
WIDTHS = (4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 11, 12, 13, 14, 16)
WRONG = -2  # in the place of a term: the bits name none
SPARE = 2  # words after the last bit


def classes(terms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`bases` and `widths` for a vocabulary of so many terms."""
    bases = np.cumsum([0, *(1 << width for width in WIDTHS)], dtype=np.int64)
    last = max(1, max(0, terms - 1 - int(bases[-1])).bit_length())
    return bases, np.array([*WIDTHS, last], np.int64)


@inlined
def bits_at(words, bit, count):
    at = bit >> 5
    pair = np.int64(words[at]) | (np.int64(words[at + 1]) << 32)
    return (pair >> (bit & 31)) & ((np.int64(1) << count) - 1)


@inlined
def rank_at(words, bit, bases, widths):
    """The rank of the term that starts at a bit, -1 for a removed stop word, and how many bits it takes."""
    head = bits_at(words, bit, 5)
    rank, size = np.int64(-1), np.int64(1)
    if head & 1:
        width = widths[head >> 1]
        rank = bases[head >> 1] + bits_at(words, bit + 5, width)
        size = 5 + width
    return rank, size


@inlined
def position_at(words, bit, ranked, bases, widths):
    """The term that starts at a bit, -1 for a removed stop word, and how many bits it takes."""
    rank, size = rank_at(words, bit, bases, widths)
    term = np.int64(-1)
    if rank >= 0:
        term = np.int64(ranked[rank]) if rank < ranked.size else np.int64(WRONG)
    return term, size


@kernel
def pack(stream, ends, rank_of, bases, widths, first_bit, words, packed_ends):
    """Packs passages after the first bits of `words`, which are taken; the rest of `words` is 0.

    stream int32, ends int64 [passages]: terms by position, and where in them each passage ends.
    """
    bit = np.int64(first_bit)
    begin = np.int64(0)
    for passage in range(ends.size):
        for at in range(begin, ends[passage]):
            value, size = np.int64(0), np.int64(1)
            if stream[at] >= 0:
                rank = np.int64(rank_of[stream[at]])
                which = 0
                while which + 1 < bases.size and rank >= bases[which + 1]:
                    which += 1
                value = ((rank - bases[which]) << 5) | (which << 1) | 1
                size = 5 + widths[which]
            for _ in range(2):  # at most 32 bits at once, so that no shift loses any
                taken = min(size, 32)
                shifted = (value & 0xFFFFFFFF) << (bit & 31)
                words[bit >> 5] |= shifted & 0xFFFFFFFF
                words[(bit >> 5) + 1] |= (shifted >> 32) & 0x7FFFFFFF
                bit += taken
                value >>= 32
                size -= taken
        packed_ends[passage] = bit
        begin = ends[passage]


@kernel
def unpack(words, begins, ends, ranked, bases, widths):
    """int32: the terms of some passages, one passage after another, and where each ends; WRONG where bits are wrong."""
    stops = np.empty(begins.size, np.int64)
    size = np.int64(0)
    for passage in range(begins.size):
        bit = begins[passage]
        while bit < ends[passage]:
            bit += 5 + widths[bits_at(words, bit + 1, 4)] if bits_at(words, bit, 1) else 1
            size += 1
        stops[passage] = size
    stream = np.empty(size, np.int32)
    at = np.int64(0)
    for passage in range(begins.size):
        bit = begins[passage]
        while bit < ends[passage]:
            term, taken = position_at(words, bit, ranked, bases, widths)
            bit += taken
            stream[at] = term if bit <= ends[passage] else WRONG
            at += 1
    return stream, stops


@kernel
def unpack_one(words, begin, end, most, ranked, bases, widths, own):
    """The first `most` positions of one passage into `own`; returns how many there are."""
    bit, count = begin, 0
    while bit < end and count < most:
        term, taken = position_at(words, bit, ranked, bases, widths)
        bit += taken
        own[count] = term
        count += 1
    return count


@kernel
def is_sound(words, ends, ranked, bases, widths):
    """Whether every position holds a term or a removed stop word, and passages end where they should."""
    bit = np.int64(0)
    for passage in range(ends.size):
        while bit < ends[passage]:
            term, taken = position_at(words, bit, ranked, bases, widths)
            bit += taken
            if term == WRONG:
                return False
        if bit != ends[passage]:
            return False
    return True
