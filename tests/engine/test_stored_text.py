"""Compressed texts and the packed stream give back what was put in, or one clear error."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orienteer.data.passage import Passage
from orienteer.engine import build_index, open_index
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.kernels import stream as streams
from orienteer.engine.embedded.stored_text import StoredText
from orienteer.errors import IndexCorruptError

SENTENCE = "The {0}th muppet lives at number {1} of a street where nobody counts beyond {0}. "


def many(count: int) -> list[Passage]:
    return [Passage(str(n), f"Muppet {n // 3}", SENTENCE.format(n, n * n % 1009) * (1 + n % 5)) for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 13])
def test_every_passage_of_a_small_index_comes_back(tmp_path: Path, count: int) -> None:
    passages = many(count)
    build_index(passages, tmp_path / "index", threads=1)
    index = Index.open(tmp_path / "index")
    assert [index.passage(number) for number in range(count)] == passages
    assert index.array("text_dictionary").size == 0


def test_a_larger_index_learns_a_dictionary_and_takes_less_than_half_of_its_text(tmp_path: Path) -> None:
    passages = many(8000)
    build_index(passages, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    assert index.array("text_dictionary").size > 0
    stored = index.array("text").size + index.array("text_dictionary").size
    assert 2 * stored < sum(len(passage.title) + len(passage.text) for passage in passages)
    rng = np.random.default_rng(3)
    for number in rng.integers(0, 8000, 300).tolist():
        assert index.passage(number) == passages[number]


def test_the_digest_of_the_passages_does_not_depend_on_how_they_are_stored(tmp_path: Path) -> None:
    build_index(many(20), tmp_path / "one", threads=1)
    build_index(many(20), tmp_path / "two", threads=2)
    build_index(many(19), tmp_path / "other", threads=1)
    one, two, other = (open_index(tmp_path / name).passages_fingerprint for name in ("one", "two", "other"))
    assert one == two != other


def test_an_index_that_was_read_from_can_be_copied(tmp_path: Path) -> None:
    build_index(many(8000), tmp_path / "index")
    index = Index.open(tmp_path / "index")
    first = index.passage(77)
    assert copy.deepcopy(index).passage(77) == first
    assert pickle.loads(pickle.dumps(index.text))[77] == index.text[77]


def frame(raw: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(zstandard.ZstdCompressor().compress(raw), np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(30, np.uint8), frame(b""), frame(b"\1\0\0\0"), frame(np.array([3, 9], "<u4").tobytes() + b"short"),
        frame(np.array([1 << 31, 0], "<u4").tobytes()), frame(np.array([0, 0], "<u4").tobytes() + b"more")[:-4],
    ],
)  # fmt: skip
def test_a_block_that_is_no_block_is_refused(data: np.ndarray[Any, Any]) -> None:
    text = StoredText(1, data, np.array([data.size]), np.empty(0, np.uint8))
    with pytest.raises(IndexCorruptError, match="text"):
        text[0]


def test_a_block_that_claims_terabytes_is_refused_before_they_are_allocated() -> None:
    bomb = zstandard.ZstdCompressor().compress(b"\0" * 1000)
    claims = bytes([*bomb[:4], 0b1110_0000, *(1 << 42).to_bytes(8, "little")]) + bomb[6:]
    assert zstandard.frame_content_size(claims) == 1 << 42
    data = np.frombuffer(claims, np.uint8)
    with pytest.raises(IndexCorruptError, match="larger than any"):
        StoredText(1, data, np.array([data.size]), np.empty(0, np.uint8))[0]


@given(
    st.integers(1, 200_000), st.lists(st.lists(st.integers(-1, 1 << 20), max_size=40), max_size=12), st.integers(0, 31)
)
def test_a_packed_stream_comes_back(terms: int, passages: list[list[int]], first: int) -> None:
    rows = [[term % terms if term >= 0 else -1 for term in passage] for passage in passages]
    rng = np.random.default_rng(terms)
    ranked = rng.permutation(terms).astype(np.int32)
    rank_of = np.argsort(ranked).astype(np.int32)
    flat = np.array([term for row in rows for term in row], np.int32)
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    words, packed = np.zeros(flat.size * 36 // 32 + 4, np.uint32), np.zeros(len(rows), np.int64)
    coding = streams.classes(terms)
    streams.pack(flat, ends, rank_of, *coding, first, words, packed)
    begins = np.concatenate([[first], packed[:-1]])[: len(rows)].astype(np.int64)
    assert not len(rows) or packed[-1] <= 32 * (words.size - streams.SPARE)
    found, stops = streams.unpack(words, begins, packed, ranked, *coding)
    assert found.tolist() == flat.tolist()
    assert stops.tolist() == ends.tolist()
    own = np.empty(64, np.int32)
    for number, row in enumerate(rows):
        size = streams.unpack_one(words, begins[number], packed[number], 3, ranked, *coding, own)
        assert own[:size].tolist() == row[:3]
