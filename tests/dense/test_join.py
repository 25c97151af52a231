"""Runs of parts, joined: the very run of the whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from orienteer.data.passage import Passage, Question
from orienteer.dense import (
    DenseError,
    EmbeddingRetriever,
    Embeddings,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    RunRetriever,
    TextEncoder,
    join_runs,
    write_run,
)
from orienteer.dense.embeddings import Manifest, as_options, gaps, join_ranges, rounded
from orienteer.engine import EmbeddedEngine, build_index, open_index

SIZE, WIDTH = 24, 3
ASKED = [Question("q1", "one"), Question("an id", "two"), Question("empty", " "), Question("q3", "three")]


class Dice:
    """An encoder whose vectors are drawn at random, of which `seed` is the text."""

    width, fingerprint, address = WIDTH, "dice", ""

    def __init__(self, turn: float = 0) -> None:
        """`turn` is how far another processor's vectors are off."""
        self._turn = turn

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        rows = [np.random.default_rng(list(text.encode())).normal(size=WIDTH) + self._turn for text in texts]
        vectors = np.array(rows, np.float32).reshape(-1, WIDTH)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode(texts)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    folder = tmp_path_factory.mktemp("numbers")
    # Ids fall while numbers rise, so that an order by id is no order by number.
    build_index([Passage(f"p{SIZE - n:02d}", "", f"number {n}") for n in range(SIZE)], folder)
    return open_index(folder, threads=1)


def some_embeddings(index: EmbeddedEngine, seed: int, shard: int) -> Embeddings:
    """Few different vectors, for ties, with scales a bit apart, for scores that differ in their last bit only."""
    generator = np.random.default_rng(seed)
    rows = rounded(generator.normal(size=(4, WIDTH)).astype(np.float32))[generator.integers(0, 4, SIZE)]
    scales = np.float32(1 / 127) + np.arange(3, dtype=np.float32) * np.spacing(np.float32(1 / 127))
    rows["scale"] = generator.choice(scales.astype(np.float32), SIZE)
    shards = {n: rows[n * shard : (n + 1) * shard] for n in range(-(-SIZE // shard))}
    return Embeddings(replace(Manifest.of(index, "dice", WIDTH, shard), shards=("made",) * len(shards)), shards)


def part_of(embeddings: Embeddings, numbers: Sequence[int]) -> Embeddings:
    """What embeddings with only these shards are."""
    made = tuple(digest if n in numbers else None for n, digest in enumerate(embeddings.manifest.shards))
    return Embeddings(replace(embeddings.manifest, shards=made), {n: embeddings.shards[n] for n in numbers})


def write(
    file: Path,
    index: EmbeddedEngine,
    embeddings: Embeddings,
    depth: int = 5,
    asked: Sequence[Question] = ASKED,
    turn: float = 0,
) -> Path:
    write_run(file, EmbeddingRetriever(index, embeddings, cast(TextEncoder, Dice(turn))), asked, depth)
    return file


def both(file: Path) -> tuple[bytes, bytes]:
    """A run and its notes."""
    return file.read_bytes(), file.with_suffix(".json").read_bytes()


@pytest.mark.long
@given(
    seed=st.integers(0, 10_000), shard=st.integers(1, 9), depth=st.integers(1, 30), cuts=st.sets(st.integers(1, 23)),
    chance=st.randoms(use_true_random=False),
)  # fmt: skip
def test_a_join_of_parts_is_the_run_of_the_whole_byte_for_byte(
    seed: int, shard: int, depth: int, cuts: set[int], chance: Random, index: EmbeddedEngine
) -> None:
    whole = some_embeddings(index, seed, shard)
    count = len(whole.shards)
    edges = [0, *sorted(cut for cut in cuts if cut < count), count]
    with TemporaryDirectory() as folder:
        expected = both(write(Path(folder, "whole.trec"), index, whole, depth))
        parts = [
            write(Path(folder, f"part-{first}.trec"), index, part_of(whole, range(first, end)), depth)
            for first, end in pairwise(edges)
        ]
        chance.shuffle(parts)
        join_runs(parts, Path(folder, "joined.trec"))
        assert both(Path(folder, "joined.trec")) == expected


def test_scores_that_differ_in_their_last_bit_keep_their_order_across_parts(
    tmp_path: Path, index: EmbeddedEngine
) -> None:
    whole = some_embeddings(index, 0, 12)
    for rows, scale in zip(
        whole.shards.values(), (np.float32(1 / 127), np.nextafter(np.float32(1 / 127), 1)), strict=True
    ):
        rows["vector"], rows["scale"] = Dice().encode(["one"])[0] * 127, scale
    parts = [write(tmp_path / f"{n}.trec", index, part_of(whole, [n]), 2, ASKED[:1]) for n in (0, 1)]
    join_runs(parts, tmp_path / "joined.trec")
    # The second part's are better by one bit, although they stand later in the index.
    assert [line.split()[2] for line in (tmp_path / "joined.trec").read_text().splitlines()] == ["p12", "p11"]
    assert both(tmp_path / "joined.trec") == both(write(tmp_path / "whole.trec", index, whole, 2, ASKED[:1]))


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_parts_joined_in_two_sittings_are_replayed_as_the_whole(
    suffix: str, tmp_path: Path, index: EmbeddedEngine
) -> None:
    whole = some_embeddings(index, 1, 6)
    one, two, three = (
        write(tmp_path / f"{n}.trec.xz", index, part_of(whole, numbers)) for n, numbers in enumerate(([0], [1, 2], [3]))
    )
    notes = join_runs([three, two], tmp_path / f"later.trec{suffix}", partial=True)
    assert notes.covers == ((6, 24),)
    out = tmp_path / "runs" / f"all.trec{suffix}"
    assert join_runs([tmp_path / f"later.trec{suffix}", one], out).covers == ((0, 24),)
    expected = EmbeddingRetriever(index, whole, cast(TextEncoder, Dice())).search_many(["one", "three"], 5)
    assert RunRetriever(tmp_path / "runs").search_many(["one", "three"], 5) == expected


def test_passages_in_no_part_are_named_with_the_options_that_embed_them(tmp_path: Path, index: EmbeddedEngine) -> None:
    whole = some_embeddings(index, 2, 4)
    a, b = (write(tmp_path / f"{n}.trec", index, part_of(whole, [n])) for n in (1, 3))
    with pytest.raises(
        EmbeddingsMissingError,
        match=r"no part covers 16 of the 24 .*--from 0 --to 4, --from 8 --to 12, --from 16 --to 24 .*with --partial$",
    ):
        join_runs([a, b], tmp_path / "out.trec")
    with pytest.raises(EmbeddingsMissingError, match=r"no part covers 4 of the 24 .*embed` --from 8 --to 12 and"):
        join_runs([a, b], tmp_path / "out.trec", partial=True)
    assert not (tmp_path / "out.trec").exists()


def test_passages_in_two_parts_are_named_with_the_parts(tmp_path: Path, index: EmbeddedEngine) -> None:
    whole = some_embeddings(index, 2, 4)
    a = write(tmp_path / "a.trec", index, part_of(whole, range(4)))
    b = write(tmp_path / "b.trec", index, part_of(whole, range(3, 6)))
    with pytest.raises(DenseError, match=r"passages 12 to 16 are in both .*a.trec and .*b.trec"):
        join_runs([b, a], tmp_path / "out.trec")
    with pytest.raises(DenseError, match=r"passages 0 to 16 are in both"):
        join_runs([a, a], tmp_path / "out.trec")


def test_a_part_with_a_gap_is_refused_with_the_options_that_fill_it(tmp_path: Path, index: EmbeddedEngine) -> None:
    whole = some_embeddings(index, 2, 4)
    a = write(tmp_path / "a.trec", index, part_of(whole, [0, 2]))
    b = write(tmp_path / "b.trec", index, part_of(whole, [1, 3, 4, 5]))
    with pytest.raises(DenseError, match=r"a.trec covers 2 ranges .*embed` --from 4 --to 8"):
        join_runs([a, b], tmp_path / "out.trec")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("passages_fingerprint", "other", "of other passages"),
        ("passages", 25, "another number of passages"),
        ("encoder", "other", "another encoder"),
        ("depth", 7, "another depth"),
        ("questions", {"q1": "one"}, "other questions"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    field: str, value: object, message: str, tmp_path: Path, index: EmbeddedEngine
) -> None:
    whole = some_embeddings(index, 3, 12)
    parts = [write(tmp_path / f"{n}.trec", index, part_of(whole, [n])) for n in (0, 1)]
    notes = json.loads((tmp_path / "1.json").read_text())
    (tmp_path / "1.json").write_text(json.dumps({**notes, field: value}))
    with pytest.raises(EmbeddingsMismatchError, match=rf"1.trec .*{message} than .*0.trec"):
        join_runs(parts, tmp_path / "out.trec")


def test_parts_asked_with_other_vectors_leave_a_trace(tmp_path: Path, index: EmbeddedEngine) -> None:
    whole = some_embeddings(index, 3, 12)
    parts = [write(tmp_path / f"{n}.trec", index, part_of(whole, [n]), turn=n / 100) for n in (0, 1)]
    assert len(join_runs(parts, tmp_path / "out.trec").question_vectors) == 2


def test_files_that_are_no_parts_are_refused(tmp_path: Path, index: EmbeddedEngine) -> None:
    whole = some_embeddings(index, 4, 12)
    parts = [write(tmp_path / f"{n}.trec", index, part_of(whole, [n])) for n in (0, 1)]
    (tmp_path / "bm25.trec").write_text("q1 Q0 d1 1 5 bm25\n")
    for stranger in ("bm25.trec", "nowhere.trec.xz"):
        with pytest.raises(EmbeddingsMissingError, match=rf"{stranger} has no notes of a run beside it"):
            join_runs([*parts, tmp_path / stranger], tmp_path / "out.trec")
    with pytest.raises(DenseError, match=r"ends in \.trec"):
        join_runs(parts, tmp_path / "out.txt")
    with pytest.raises(DenseError, match="no parts"):
        join_runs([], tmp_path / "out.trec")
    parts[1].write_text(parts[1].read_text()[:-1])
    with pytest.raises(EmbeddingsCorruptError, match=r"1.trec is not the run"):
        join_runs(parts, tmp_path / "out.trec")


@given(st.sets(st.integers(0, 11)))
def test_ranges_and_their_gaps_are_all_numbers(numbers: set[int]) -> None:
    ranges = join_ranges((n, n + 1) for n in sorted(numbers))
    assert {n for first, end in ranges for n in range(first, end)} == numbers
    assert {n for first, end in gaps(ranges, 12) for n in range(first, end)} == {*range(12)} - numbers
    assert all(end < first for (_, end), (first, _) in pairwise(ranges))


def test_a_message_names_only_the_first_ranges() -> None:
    assert as_options(((0, 1), (2, 3), (4, 5), (6, 7))) == "--from 0 --to 1, --from 2 --to 3, --from 4 --to 5, …"
