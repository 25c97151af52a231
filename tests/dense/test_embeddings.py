"""Embeddings on disk: made in shards, killed, taken up again, checked."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from small_world import PASSAGES

from orienteer.dense import (
    DenseError,
    EmbeddingRetriever,
    Embeddings,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    EmbedWorkers,
    TextEncoder,
    embed_index,
)
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.workers import Progress


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if not file.name.startswith(".")}


class Tired(TextEncoder):
    """Gives up after some texts, as a killed process does."""

    left = 0

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        self.left -= len(texts)
        if self.left < 0:
            raise KeyboardInterrupt
        return super().encode(texts, progress)


def test_every_passage_has_its_vector_in_order(
    embeddings_folder: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    embeddings = Embeddings.open(embeddings_folder)
    assert [len(rows) for rows in embeddings.shards.values()] == [5, 5, 2]
    rows = np.concatenate(list(embeddings.shards.values()))
    expected = encoder.encode([passage.contents for passage in PASSAGES])
    assert rows["vector"] * rows["scale"][:, None] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("after", [0, 4, 5, 10])
def test_a_stopped_run_taken_up_again_gives_the_same_bytes(
    after: int, tmp_path: Path, engine: EmbeddedEngine, encoder_folder: Path, embeddings_folder: Path
) -> None:
    tired = Tired.from_pretrained(encoder_folder, threads=1)
    assert isinstance(tired, Tired)
    tired.left = after
    with pytest.raises(KeyboardInterrupt):
        embed_index(engine, tired, tmp_path, shard=5)
    with pytest.raises(EmbeddingsMissingError, match=f"{after // 5} of 3 shards"):
        Embeddings.open(tmp_path)
    told: list[Progress] = []
    embed_index(engine, TextEncoder.from_pretrained(encoder_folder, threads=2), tmp_path, shard=5, progress=told.append)
    assert content(tmp_path) == content(embeddings_folder)
    assert (told[0].done, told[0].seconds_left) == (after // 5 * 5, None)
    assert (told[-1].done, told[-1].total) == (12, 12)
    assert told[-1].seconds_left == 0


@pytest.mark.parametrize(
    ("passages", "shards"),
    [(range(12), [0, 1, 2]), (range(5), [0]), (range(5, 10), [1]), (range(4, 6), [0, 1]), (range(11, 12), [2])],
)
def test_of_a_range_only_the_shards_that_hold_it_are_made(
    passages: range, shards: list[int], tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder,
    embeddings_folder: Path,
) -> None:  # fmt: skip
    told: list[Progress] = []
    manifest = embed_index(engine, encoder, tmp_path, shard=5, passages=passages, progress=told.append)
    made, whole = content(tmp_path), content(embeddings_folder)
    assert set(made) == {"embeddings.json", *(f"shard-{number:05d}.npy" for number in shards)}
    assert all(made[name] == whole[name] for name in made if name.startswith("shard"))
    size = sum(min(5, 12 - 5 * number) for number in shards)
    assert [(each.done, each.total) for each in (told[0], told[-1])] == [(0, size), (size, size)]
    assert manifest.covered == ((5 * shards[0], min(12, 5 * shards[-1] + 5)),)
    embed_index(engine, encoder, tmp_path, shard=5)
    assert content(tmp_path) == whole


def test_a_range_leaves_other_shards_as_they_are_and_mends_its_own(
    tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder, embeddings_folder: Path
) -> None:
    embed_index(engine, encoder, tmp_path, shard=5)
    for number in (0, 1):
        (tmp_path / f"shard-{number:05d}.npy").write_bytes(b"damaged")
    told: list[Progress] = []
    embed_index(engine, encoder, tmp_path, shard=5, passages=range(5, 12), progress=told.append)
    assert (told[0].done, told[-1].done, told[-1].total) == (2, 7, 7)
    assert content(tmp_path) == {**content(embeddings_folder), "shard-00000.npy": b"damaged"}


@pytest.mark.long
def test_a_range_is_shared_by_workers(
    tmp_path: Path, index_folder: Path, encoder_folder: Path, engine: EmbeddedEngine, encoder: TextEncoder,
    embeddings_folder: Path,
) -> None:  # fmt: skip
    workers = EmbedWorkers(index_folder, encoder_folder, workers=2)
    embed_index(engine, encoder, tmp_path, shard=5, passages=range(7, 12), workers=workers)
    made, whole = content(tmp_path), content(embeddings_folder)
    assert made == {"embeddings.json": made["embeddings.json"]} | {
        name: whole[name] for name in ("shard-00001.npy", "shard-00002.npy")
    }


@pytest.mark.parametrize("passages", [range(-1, 5), range(5, 5), range(6, 5), range(0, 13), range(12, 12)])
def test_a_range_that_is_no_part_of_the_index_is_refused_before_anything_is_written(
    passages: range, tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    with pytest.raises(DenseError, match=rf"from {passages.start} to {passages.stop} .* 0 ≤ from < to ≤ 12"):
        embed_index(engine, encoder, tmp_path / "out", passages=passages)
    assert not (tmp_path / "out").exists()


def test_part_of_the_embeddings_opens_only_when_asked_for(
    tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    for passages in (range(10, 12), range(5)):
        embed_index(engine, encoder, tmp_path, shard=5, passages=passages)
    with pytest.raises(EmbeddingsMissingError, match=r"2 of 3 shards.*dense-run --partial"):
        Embeddings.open(tmp_path)
    part = Embeddings.open(tmp_path, partial=True)
    assert part.manifest.covered == ((0, 5), (10, 12))
    found = EmbeddingRetriever(engine, part, encoder).search_many([PASSAGES[10].contents], 20)[0]
    assert found[0].id == PASSAGES[10].id
    assert {hit.id for hit in found} == {passage.id for passage in (*PASSAGES[:5], *PASSAGES[10:])}


def test_embeddings_of_which_nothing_is_made_do_not_open(
    tmp_path: Path, engine: EmbeddedEngine, encoder_folder: Path
) -> None:
    tired = Tired.from_pretrained(encoder_folder, threads=1)
    with pytest.raises(KeyboardInterrupt):
        embed_index(engine, tired, tmp_path, shard=5)
    with pytest.raises(EmbeddingsMissingError, match="0 of 3 shards"):
        Embeddings.open(tmp_path, partial=True)


KILLED = """
import sys
from orienteer.dense import TextEncoder, embed_index
from orienteer.engine import open_index
index, encoder, out = sys.argv[1:]
embed_index(open_index(index), TextEncoder.from_pretrained(encoder, threads=1), out, shard=1,
            progress=lambda progress: (print(progress.done, flush=True), sys.stdin.readline()))
"""


@pytest.mark.long
def test_a_run_killed_again_and_again_ends_with_the_same_bytes(
    tmp_path: Path, index_folder: Path, encoder_folder: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    embed_index(engine, encoder, tmp_path / "peace", shard=1)
    command = [sys.executable, "-c", KILLED, str(index_folder), str(encoder_folder), str(tmp_path / "war")]
    generator = np.random.default_rng(0)
    kills = 0
    while True:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(3):
                if process.stdout.readline():
                    process.stdin.write("\n")
                    process.stdin.flush()
            time.sleep(generator.uniform(0, 0.03))  # it goes on, and is killed wherever it is
            process.send_signal(signal.SIGKILL)
            killed = process.wait() == -signal.SIGKILL
        if not killed or kills == 8:
            break
        kills += 1
    assert kills >= 2
    embed_index(engine, encoder, tmp_path / "war", shard=1)
    assert content(tmp_path / "war") == content(tmp_path / "peace")


@pytest.mark.long
def test_workers_make_the_same_bytes_and_finish_what_one_process_began(
    tmp_path: Path, index_folder: Path, encoder_folder: Path, engine: EmbeddedEngine, encoder: TextEncoder,
    embeddings_folder: Path,
) -> None:  # fmt: skip
    workers = EmbedWorkers(index_folder, encoder_folder, workers=2)
    told: list[Progress] = []
    embed_index(engine, encoder, tmp_path / "new", shard=5, workers=workers, progress=told.append)
    assert content(tmp_path / "new") == content(embeddings_folder)
    assert (told[0].done, told[-1].done, told[-1].seconds_left) == (0, 12, 0)
    (tmp_path / "new" / "shard-00001.npy").unlink()
    embed_index(engine, encoder, tmp_path / "new", shard=5, workers=workers)
    assert content(tmp_path / "new") == content(embeddings_folder)


@pytest.mark.long
def test_a_worker_that_sees_other_passages_is_refused(
    tmp_path: Path, encoder_folder: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    build_index(PASSAGES[::-1], tmp_path / "other")
    with pytest.raises(EmbeddingsMismatchError, match="a worker sees other passages"):
        embed_index(
            engine, encoder, tmp_path / "out", workers=EmbedWorkers(tmp_path / "other", encoder_folder, workers=2)
        )


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_shard_is_found_and_made_again(
    harm: str, tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder, embeddings_folder: Path
) -> None:
    embed_index(engine, encoder, tmp_path, shard=5)
    file = tmp_path / "shard-00001.npy"
    data = bytearray(file.read_bytes())
    if harm == "flip":
        data[-1] ^= 1
    elif harm == "cut":
        del data[-1]
    file.write_bytes(data)
    if harm == "remove":
        file.unlink()
    if harm != "flip":
        with pytest.raises(EmbeddingsCorruptError, match=r"shard-00001.npy.*`orienteer embed` again"):
            Embeddings.open(tmp_path)
    embed_index(engine, encoder, tmp_path, shard=5)
    assert content(tmp_path) == content(embeddings_folder)


def test_an_index_built_anew_from_the_same_passages_keeps_its_embeddings(
    tmp_path: Path, encoder: TextEncoder, embeddings_folder: Path
) -> None:
    build_index(PASSAGES[:6], tmp_path)
    build_index(PASSAGES, tmp_path)
    EmbeddingRetriever(open_index(tmp_path), Embeddings.open(embeddings_folder), encoder)


def test_other_passages_and_other_encoders_are_refused(
    tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder, embeddings_folder: Path
) -> None:
    from bare_bert import save_bare

    build_index(PASSAGES[::-1], tmp_path / "index")
    turned = open_index(tmp_path / "index")
    other = TextEncoder.from_pretrained(save_bare(tmp_path / "bert", seed=1), threads=1)
    embeddings = Embeddings.open(embeddings_folder)
    with pytest.raises(EmbeddingsMismatchError, match="of other passages"):
        EmbeddingRetriever(turned, embeddings, encoder)
    with pytest.raises(EmbeddingsMismatchError, match=f"{encoder.fingerprint}, this one is {other.fingerprint}"):
        EmbeddingRetriever(engine, embeddings, other)
    for index, model, shard in ((turned, encoder, 5), (engine, other, 5), (engine, encoder, 4)):
        with pytest.raises(EmbeddingsMismatchError, match="begun with other passages"):
            embed_index(index, model, embeddings_folder, shard=shard)


def test_a_second_writer_is_refused_at_once(tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(DenseError, match="another process"):
        embed_index(engine, encoder, tmp_path)
    os.close(held)
    embed_index(engine, encoder, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"format": "orienteer-embeddings"}'])
def test_a_damaged_manifest_is_an_error_of_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / "embeddings.json").write_text(text)
    with pytest.raises(EmbeddingsCorruptError, match=r"embeddings.json"):
        Embeddings.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(
    tmp_path: Path, engine: EmbeddedEngine, encoder: TextEncoder
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DenseError, match="cannot be written"):
        embed_index(engine, encoder, tmp_path / "file" / "folder")
    with pytest.raises(EmbeddingsMissingError, match="no embeddings"):
        Embeddings.open(tmp_path / "file")


def test_the_retriever_finds_a_passage_by_its_own_words(
    engine: EmbeddedEngine, encoder: TextEncoder, embeddings_folder: Path
) -> None:
    retriever = EmbeddingRetriever(engine, Embeddings.open(embeddings_folder), encoder)
    found = retriever.search_many([passage.contents for passage in PASSAGES], 3)
    # The last passage is the first again: of equals the first in the index comes first.
    assert [hits[0].id for hits in found] == [passage.id for passage in PASSAGES[:-1]] + ["ardle-1"]
    assert found[0][0].score == found[0][1].score
    assert found[0][1].id == "same-1"
    assert all(hits[0].score == pytest.approx(1, abs=0.02) for hits in found)
