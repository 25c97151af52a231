"""Which passages are covered: ranges [first, end) in the order of the index, with a gap after each but the last."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

_NAMED = 3  # ranges in a message


def joined(parts: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, none in another's place, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, end in parts:
        if found and found[-1][1] == first:
            first, _ = found.pop()
        found.append((first, end))
    return tuple(found)


def gaps(ranges: Ranges, size: int) -> Ranges:
    """What the ranges leave out of `size` passages."""
    ends, firsts = (0, *(end for _, end in ranges)), (*(first for first, _ in ranges), size)
    return tuple((end, first) for end, first in zip(ends, firsts, strict=True) if end < first)


def count(ranges: Ranges) -> int:
    return sum(end - first for first, end in ranges)


def as_options(ranges: Ranges) -> str:
    """Ranges as `orienteer embed` takes them."""
    named = ", ".join(f"--from {first} --to {end}" for first, end in ranges[:_NAMED])
    return f"{named}, …" if len(ranges) > _NAMED else named
