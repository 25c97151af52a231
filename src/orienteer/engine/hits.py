"""Result lists as arrays, and what callers do with lists of any engine: distinct passages, rows, both together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import Hit


class PassageNames(Protocol):
    """From a passage's number to its id."""

    def id(self, number: int) -> str: ...


class Hits(Sequence[Hit]):
    """A result list that makes a `Hit` on access; `numbers` and `scores` are the arrays behind it."""

    __slots__ = ("_names", "numbers", "scores")

    def __init__(self, names: PassageNames, numbers: NDArray[np.int64], scores: NDArray[np.float32]):
        self._names, self.numbers, self.scores = names, numbers, scores

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Hits: ...
    def __getitem__(self, at: int | slice) -> Hit | Hits:
        if isinstance(at, slice):
            return Hits(self._names, self.numbers[at], self.scores[at])
        return Hit(self._names.id(int(self.numbers[at])), float(self.scores[at]))

    def __iter__(self) -> Iterator[Hit]:
        for number, score in zip(self.numbers.tolist(), self.scores.tolist(), strict=True):
            yield Hit(self._names.id(number), score)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    __hash__ = None  # type: ignore[assignment]


class HitLists(Sequence[Hits]):
    """One result list a refinement; `numbers`, `scores` [refinements, k] and `counts` are the arrays behind them."""

    __slots__ = ("counts", "names", "numbers", "scores")

    def __init__(
        self, names: PassageNames, numbers: NDArray[np.int64], scores: NDArray[np.float32], counts: NDArray[np.int64]
    ):
        self.names, self.numbers, self.scores, self.counts = names, numbers, scores, counts

    @classmethod
    def empty(cls, names: PassageNames, size: int) -> HitLists:
        return cls(names, np.empty((size, 0), np.int64), np.empty((size, 0), np.float32), np.zeros(size, np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, at: int) -> Hits: ...
    @overload
    def __getitem__(self, at: slice) -> HitLists: ...
    def __getitem__(self, at: int | slice) -> Hits | HitLists:
        if isinstance(at, slice):
            return HitLists(self.names, self.numbers[at], self.scores[at], self.counts[at])
        count = self.counts[at]
        return Hits(self.names, self.numbers[at, :count], self.scores[at, :count])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def take(lists: Sequence[Sequence[Hit]], rows: Sequence[int]) -> Sequence[Sequence[Hit]]:
    """Some of the lists, in this order."""
    if isinstance(lists, HitLists):
        return HitLists(lists.names, lists.numbers[rows], lists.scores[rows], lists.counts[rows])
    return [lists[row] for row in rows]


def concatenate(first: Sequence[Sequence[Hit]], second: Sequence[Sequence[Hit]]) -> Sequence[Sequence[Hit]]:
    """The lists of both, as arrays where both are arrays over the same index."""
    if (
        isinstance(first, HitLists)
        and isinstance(second, HitLists)
        and first.names is second.names
        and first.numbers.shape[1] == second.numbers.shape[1]
    ):
        return HitLists(
            first.names,
            np.concatenate([first.numbers, second.numbers]),
            np.concatenate([first.scores, second.scores]),
            np.concatenate([first.counts, second.counts]),
        )
    return [*first, *second]


def distinct_hits(lists: Sequence[Sequence[Hit]], k: int) -> tuple[list[str], NDArray[np.int64]]:
    """The ids of all hits, each once, in order of appearance; each list as places in them [lists, k], -1: no hit."""
    places = np.full((len(lists), k), -1, np.int64)
    if isinstance(lists, HitLists):
        rows, ranks = np.nonzero(np.arange(lists.numbers.shape[1]) < lists.counts[:, None])
        numbers, first, inverse = np.unique(lists.numbers[rows, ranks], return_index=True, return_inverse=True)
        order = np.argsort(first)
        places[rows, ranks] = np.argsort(order)[inverse]
        return [lists.names.id(number) for number in numbers[order].tolist()], places
    known: dict[str, int] = {}
    for row, hits in enumerate(lists):
        for rank, hit in enumerate(hits):
            places[row, rank] = known.setdefault(hit.id, len(known))
    return list(known), places
