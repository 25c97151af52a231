"""Result lists of a thousand candidates as one table of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.engine import HitLists
from orienteer.engine.protocol import Engine, Hit
from orienteer.query import Query, Refinement


def refine_all(
    engine: Engine, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int
) -> Sequence[Sequence[Sequence[Hit]]]:
    """`refine` for each query, in one call where the engine has one."""
    if (refine_many := getattr(engine, "refine_many", None)) is not None:
        return cast(Sequence[Sequence[Sequence[Hit]]], refine_many(queries, refinements, k))
    return [engine.refine(query, own, k) for query, own in zip(queries, refinements, strict=True)]


def hit_table(lists: Sequence[Sequence[Hit]], k: int) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct ids of all hits, and each list as places in it [lists, k], -1 where there is no hit."""
    if isinstance(lists, HitLists):
        return _from_arrays(lists, k)
    places: dict[str, int] = {}
    table = np.full((len(lists), k), -1, np.int64)
    for row, hits in enumerate(lists):
        for rank, hit in enumerate(hits):
            table[row, rank] = places.setdefault(hit.id, len(places))
    return list(places), table


def _from_arrays(lists: HitLists, k: int) -> tuple[list[str], NDArray[np.int64]]:
    """Without making a `Hit` for any but the first meeting with a passage."""
    width = lists.numbers.shape[1]
    table = np.full((len(lists), k), -1, np.int64)
    rows, ranks = np.nonzero(np.arange(width) < lists.counts[:, None])
    numbers, first, places = np.unique(lists.numbers[rows, ranks], return_index=True, return_inverse=True)
    # In order of appearance, as for any other engine.
    order = np.argsort(first)
    rank_of = np.empty(len(numbers), np.int64)
    rank_of[order] = np.arange(len(numbers))
    table[rows, ranks] = rank_of[places]
    return [lists[int(rows[at])][int(ranks[at])].id for at in first[order]], table
