"""States of rows that an encoder has seen are kept, within a limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np

from orienteer.models.bert_encoder import Ct2Encoder, RecentStates


class Counting:
    """Encodes a row as its own numbers, and counts."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[int], list[int]]] = []

    def __call__(self, ids: Any, types: Any, *, alone: bool = False) -> np.ndarray[Any, Any]:
        self.rows.append((ids.tolist(), list(types)))
        return np.array([ids, types], np.float32).T


def row(*ids: int) -> np.ndarray[Any, Any]:
    return np.array(ids, np.int32)


def kinds(*types: int) -> np.ndarray[Any, Any]:
    return np.array(types, np.uint8)


def test_a_row_is_encoded_once_and_one_of_other_types_is_another() -> None:
    encoder = Counting()
    states = RecentStates(cast(Ct2Encoder, encoder))
    first = states(row(1, 2), kinds(0, 0))
    assert states(row(1, 2), kinds(0, 0)) is first
    assert states(row(1, 2), kinds(0, 1)).tolist() == [[1, 0], [2, 1]]
    assert states(row(1, 3), kinds(0, 0)).tolist() == [[1, 0], [3, 0]]
    assert encoder.rows == [([1, 2], [0, 0]), ([1, 2], [0, 1]), ([1, 3], [0, 0])]
    assert not first.flags.writeable


def test_the_rows_that_were_used_longest_ago_go_first() -> None:
    encoder = Counting()
    states = RecentStates(cast(Ct2Encoder, encoder), size=2 * 8)  # of one number each
    for number in (1, 2, 1, 3, 1, 2):  # 3 takes the place of 2, not of 1
        states(row(number), kinds(0))
    assert [ids for ids, _ in encoder.rows] == [[1], [2], [3], [2]]


def test_threads_get_their_own_rows() -> None:
    states = RecentStates(cast(Ct2Encoder, Counting()), size=10 * 8)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: states(row(n % 17), kinds(n % 2)).tolist(), range(2000)))
    assert found == [[[n % 17, n % 2]] for n in range(2000)]
