"""Exact search over int8 vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from orienteer.dense.embeddings import Embeddings, Manifest, rounded, row_type
from orienteer.dense.search import nearest


def held(rows: NDArray[np.void], shard: int) -> Embeddings:
    width = rows["vector"].shape[1]
    shards = {start // shard: rows[start : start + shard] for start in range(0, len(rows), shard)}
    return Embeddings(Manifest("", "", width, len(rows), shard, ("",) * len(shards)), shards)


def in_order(rows: NDArray[np.void], question: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
    """By Python's own whole numbers; equal scores by number."""
    asked = [round(float(value) * 4096) for value in question]
    scores = []
    for number, (scale, vector) in enumerate(zip(rows["scale"], rows["vector"].tolist(), strict=True)):
        product = sum(a * b for a, b in zip(asked, vector, strict=True))
        scores.append((number, float(np.float32(product) * (scale / np.float32(4096)))))
    return sorted(scores, key=lambda each: (-each[1], each[0]))[:k]


def some(seed: int, size: int, width: int, distinct: int) -> tuple[NDArray[np.void], NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(distinct, width)).astype(np.float32)
    rows = rounded(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))[generator.integers(0, distinct, size)]
    questions = generator.normal(size=(3, width)).astype(np.float32)
    return rows, questions / np.linalg.norm(questions, axis=1, keepdims=True)


@given(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([1, 3, 16]), st.integers(1, 12), st.integers(0, 50))
def test_the_nearest_are_those_of_whole_numbers_however_shards_are_cut(
    seed: int, size: int, width: int, shard: int, k: int
) -> None:
    rows, questions = some(seed, size, width, distinct=7)  # twins make ties
    found = nearest(held(rows, shard), questions, k)
    for question, (numbers, scores) in zip(questions, found, strict=True):
        assert list(zip(numbers.tolist(), scores.tolist(), strict=True)) == in_order(rows, question, k)


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 6), st.sets(st.integers(0, 39)), st.integers(0, 50))
def test_without_some_shards_the_numbers_are_those_of_the_index(
    seed: int, size: int, shard: int, lost: set[int], k: int
) -> None:
    rows, questions = some(seed, size, 3, distinct=7)
    whole = held(rows, shard)
    rest = Embeddings(whole.manifest, {number: part for number, part in whole.shards.items() if number not in lost})
    for question, (numbers, scores) in zip(questions, nearest(rest, questions, k), strict=True):
        there = [hit for hit in in_order(rows, question, size) if hit[0] // shard not in lost]
        assert list(zip(numbers.tolist(), scores.tolist(), strict=True)) == there[:k]


def test_questions_asked_together_find_what_each_finds_alone() -> None:
    rows, _ = some(1, 500, 384, distinct=500)
    questions = np.concatenate([some(seed, 1, 384, 1)[1] for seed in range(30)])
    together = nearest(held(rows, 64), questions, 20)
    for question, (numbers, scores) in zip(questions, together, strict=True):
        [(alone, their_scores)] = nearest(held(rows, 500), question[None], 20)
        assert (numbers == alone).all()
        assert (scores == their_scores).all()


def test_the_largest_products_are_still_exact() -> None:
    rows = np.empty(3, row_type(1024))
    rows["vector"], rows["scale"] = 127, 1 / (127 * 32)
    rows["vector"][1, 0] = 126  # the smallest difference there is
    question = np.full((1, 1024), 1 / 32, np.float32)
    [(numbers, scores)] = nearest(held(rows, 3), question, 3)
    assert numbers.tolist() == [0, 2, 1]
    assert scores[0] == scores[1] > scores[2]


def test_an_int8_vector_is_near_the_one_it_stands_for() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = rounded(vectors)
    assert rows["vector"] * rows["scale"][:, None] == pytest.approx(vectors, abs=1e-3)
    assert (np.abs(rows["vector"]).max(1) == 127).all()


def test_a_vector_of_zeros_and_no_vectors_do_no_harm() -> None:
    assert (rounded(np.zeros((1, 4), np.float32))["vector"] == 0).all()
    [(numbers, _)] = nearest(held(rounded(np.empty((0, 4), np.float32)), 5), np.ones((1, 4), np.float32), 5)
    assert numbers.size == 0


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 12), st.sets(st.integers(0, 39)), st.integers(0, 50))
def test_a_filter_leaves_the_nearest_of_the_passages_that_pass(
    seed: int, size: int, shard: int, passing: set[int], k: int
) -> None:
    rows, questions = some(seed, size, 3, distinct=7)
    allowed = np.isin(np.arange(size), list(passing))
    allowed.flags.writeable = False
    for question, (numbers, scores) in zip(questions, nearest(held(rows, shard), questions, k, allowed), strict=True):
        there = [hit for hit in in_order(rows, question, size) if hit[0] in passing]
        assert list(zip(numbers.tolist(), scores.tolist(), strict=True)) == there[:k]
