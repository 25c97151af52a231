"""Commits, generations and locks of the index on disk, and the strange passages it must hold."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, build_index, open_index, update_index
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.store import LOCK, MANIFEST, Manifest, read_manifest, verify, writing
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import (
    DuplicateIdError,
    IndexCorruptError,
    IndexLockedError,
    IndexMissingError,
    IndexVersionError,
    OrienteerError,
    UnknownPassageError,
)
from orienteer.query import G4, Query

WORDS = "green muppet street trash can the of café 東京 don't 3.14 naïve".split()


def passages_of(size: int, seed: int = 1, first: int = 0) -> list[Passage]:
    rng = random.Random(seed)
    return [
        Passage(
            f"p{number}",
            " ".join(rng.choices(WORDS, k=rng.randrange(4))),
            " ".join(rng.choices(WORDS, k=rng.randrange(30))),
        )
        for number in range(first, first + size)
    ]


def files_of(path: Path) -> dict[str, bytes]:
    """The current generation, byte for byte."""
    return {file.name: file.read_bytes() for file in (path / read_manifest(path).folder).iterdir()}


def check_equal(path: Path, fresh: list[Passage], tmp_path: Path) -> None:
    other = tmp_path / "fresh"
    manifest = build_index(fresh, other)
    assert files_of(path) == files_of(other)
    assert read_manifest(path).fingerprint == manifest.fingerprint


def check_searches_like_the_reference(path: Path, passages: list[Passage], words: list[str]) -> None:
    engine, reference = open_index(path), ReferenceEngine(passages)
    for word in words:
        for refinement in (*G4.refinements("contents", word), *G4.refinements("title", word)):
            for query in (Query(word), Query(word, (refinement,)), Query("", (refinement,))):
                assert list(engine.search(query, 5)) == list(reference.search(query, 5)), str(query)


# Commits


def test_what_was_built_is_read_back_whole(tmp_path: Path) -> None:
    passages = passages_of(50)
    build_index(passages, tmp_path / "index")
    engine = open_index(tmp_path / "index")
    assert engine.passages([passage.id for passage in passages]) == passages
    assert len(engine) == 50
    assert verify(tmp_path / "index") == []


def test_a_commit_leaves_one_generation_the_manifest_and_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for expected in (1, 2, 3):
        assert build_index(passages_of(5), path).generation == expected
        names = sorted(file.name for file in path.iterdir())
        assert names == [f"generation-{expected:06d}", MANIFEST, LOCK]


def test_the_manifest_names_every_file_of_its_generation(tmp_path: Path) -> None:
    manifest = build_index(passages_of(5), tmp_path / "index")
    assert set(files_of(tmp_path / "index")) == set(manifest.files)
    assert manifest == read_manifest(tmp_path / "index")
    assert manifest.counts["passages"] == 5


def test_the_same_passages_give_the_same_fingerprint_whatever_the_threads_and_the_memory(tmp_path: Path) -> None:
    passages = passages_of(200)
    one = build_index(passages, tmp_path / "one", threads=1)
    other = build_index(iter(passages), tmp_path / "other", threads=4, memory=1 << 10)
    assert one.fingerprint == other.fingerprint
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")


def test_another_order_of_the_passages_is_another_fingerprint(tmp_path: Path) -> None:
    passages = passages_of(20)
    one = build_index(passages, tmp_path / "one").fingerprint
    assert build_index(passages[::-1], tmp_path / "other").fingerprint != one


def test_a_reader_keeps_its_generation_while_writers_make_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "index"
    old = passages_of(30)
    build_index(old, path)
    engine = open_index(path)
    before = list(engine.search(Query("green muppet"), 10))
    build_index(passages_of(30, seed=2), path)
    update_index(path, delete=["p0"])
    assert list(engine.search(Query("green muppet"), 10)) == before
    assert engine.passages([passage.id for passage in old]) == old


@pytest.mark.long
def test_an_index_can_be_opened_and_verified_at_any_moment_of_many_commits(tmp_path: Path) -> None:
    path = tmp_path / "index"
    known = {build_index(passages_of(20, seed=seed), tmp_path / f"{seed}").fingerprint for seed in (1, 2)}
    build_index(passages_of(20), path)
    done = threading.Event()

    def write() -> None:
        for turn in range(12):
            build_index(passages_of(20, seed=1 + turn % 2), path, threads=1)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    opened = 0
    while not done.is_set():
        assert Index.open(path).manifest.fingerprint in known
        assert verify(path) == []
        opened += 1
    writer.join()
    assert opened > 0


def test_a_build_that_fails_leaves_the_old_index_and_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "index"
    before = build_index(passages_of(10), path)

    def broken() -> Iterator[Passage]:
        yield from passages_of(5)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        build_index(broken(), path)
    with pytest.raises(RuntimeError):
        update_index(path, add=broken())
    assert read_manifest(path) == before
    assert sorted(file.name for file in path.iterdir()) == [before.folder, MANIFEST, LOCK]


def test_a_first_build_that_fails_leaves_no_index(tmp_path: Path) -> None:
    with pytest.raises(DuplicateIdError):
        build_index([Passage("a", "", ""), Passage("a", "", "")], tmp_path / "index")
    with pytest.raises(IndexMissingError):
        open_index(tmp_path / "index")
    assert [file.name for file in (tmp_path / "index").iterdir()] == [LOCK]


def test_a_killed_writers_folder_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build_index(passages_of(3), path)
    (path / "generation-000009").mkdir()
    (path / "generation-000009" / "text.npy").write_bytes(b"half")
    manifest = build_index(passages_of(3), path)
    assert [file.name for file in path.glob("generation-*")] == [manifest.folder]


# An index that this version cannot read is not thrown away before there is another


def rewrite_manifest(path: Path, **changes: object) -> None:
    raw = json.loads((path / MANIFEST).read_bytes())
    (path / MANIFEST).write_text(json.dumps(raw | changes, indent=1))


def test_an_index_of_another_version_says_so_and_can_be_built_again(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build_index(passages_of(3), path)
    rewrite_manifest(path, version=99)
    with pytest.raises(
        IndexVersionError, match=r"index format 99, this Orienteer reads format 3 and 4; build the index"
    ):
        open_index(path)
    with pytest.raises(IndexVersionError):
        update_index(path, add=[Passage("new", "", "")])
    build_index(passages_of(4), path)
    assert len(open_index(path)) == 4


@pytest.mark.parametrize("damage", ["version", "checksum"])
def test_a_failed_build_over_an_unreadable_index_leaves_its_files(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "index"
    build_index(passages_of(3), path)
    before = files_of(path)
    rewrite_manifest(path, **{damage: 2})
    with pytest.raises(DuplicateIdError):
        build_index([Passage("a", "", ""), Passage("a", "", "")], path)
    assert {file.name: file.read_bytes() for file in (path / "generation-000001").iterdir()} == before
    assert build_index(passages_of(3), path).generation == 2
    assert [file.name for file in path.glob("generation-*")] == ["generation-000002"]


def test_another_programs_manifest_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"name": "a web page"}')
    with pytest.raises(IndexCorruptError, match=r"not an Orienteer index manifest; name another folder"):
        build_index(passages_of(3), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [MANIFEST]
    assert (tmp_path / MANIFEST).read_text() == '{"name": "a web page"}'


# Locks


def test_a_second_writer_is_refused_and_the_first_commits(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build_index(passages_of(3), path)
    with writing(path):
        with pytest.raises(IndexLockedError, match=r"another process is writing .*index; try again"):
            build_index(passages_of(4), path)
        with pytest.raises(IndexLockedError):
            update_index(path, delete=["p0"])
        assert len(open_index(path)) == 3
    build_index(passages_of(4), path)
    assert len(open_index(path)) == 4


def test_a_lock_file_left_behind_locks_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(b"")
    assert build_index(passages_of(3), tmp_path).counts["passages"] == 3


# Add and delete


def test_add_equals_a_fresh_build(tmp_path: Path) -> None:
    path = tmp_path / "index"
    old, new = passages_of(30), passages_of(20, seed=2, first=30)
    build_index(old, path)
    assert update_index(path, add=new).generation == 2
    check_equal(path, old + new, tmp_path)


def test_delete_equals_a_fresh_build_and_forgets_terms_that_only_deleted_passages_had(tmp_path: Path) -> None:
    path = tmp_path / "index"
    passages = [*passages_of(30), Passage("rare", "onlyhere", "onlyhere too")]
    build_index(passages, path)
    update_index(path, delete=["p3", "rare", "p29", "p3"])
    kept = [passage for passage in passages if passage.id not in ("p3", "rare", "p29")]
    check_equal(path, kept, tmp_path)
    assert list(open_index(path).search(Query("onlyhere"))) == []


def test_a_passage_deleted_and_added_in_one_commit_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build_index(passages_of(5), path)
    update_index(path, delete=["p2"], add=[Passage("p2", "new", "another text")])
    assert open_index(path).passages(["p2"]) == [Passage("p2", "new", "another text")]
    check_equal(path, [p for p in passages_of(5) if p.id != "p2"] + [Passage("p2", "new", "another text")], tmp_path)


def test_everything_deleted_is_an_empty_index_that_can_be_added_to(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build_index(passages_of(5), path)
    assert update_index(path, delete=[f"p{number}" for number in range(5)]).counts["passages"] == 0
    assert list(open_index(path).search(Query("green"))) == []
    update_index(path, add=passages_of(7))
    check_equal(path, passages_of(7), tmp_path)


def test_an_update_of_nothing_changes_nothing_but_the_generation(tmp_path: Path) -> None:
    path = tmp_path / "index"
    before = build_index(passages_of(5), path)
    after = update_index(path)
    assert (after.generation, after.fingerprint) == (2, before.fingerprint)


def test_an_unknown_id_to_delete_is_named_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    before = build_index(passages_of(5), path)
    with pytest.raises(UnknownPassageError, match=r"cannot delete 'missing'"):
        update_index(path, delete=["p1", "missing"], add=[Passage("new", "", "")])
    assert read_manifest(path) == before
    assert verify(path) == []


def test_an_added_id_that_the_index_holds_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    before = build_index(passages_of(5), path)
    with pytest.raises(DuplicateIdError, match="'p3'") as caught:
        update_index(path, add=[Passage("p3", "", "again")])
    assert caught.value.passage_id == "p3"
    assert read_manifest(path) == before


def test_an_update_of_no_index_makes_none(tmp_path: Path) -> None:
    with pytest.raises(IndexMissingError, match="no index at"):
        update_index(tmp_path / "nowhere", add=passages_of(1))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.long
@settings(max_examples=15)
@given(steps=st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 30), max_size=6)), min_size=1, max_size=5))
def test_any_history_of_adds_and_deletes_equals_a_fresh_build(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, list[int]]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    build_index([], folder / "index")
    held: list[Passage] = []
    for turn, (added, places) in enumerate(steps):
        new = passages_of(added, seed=turn, first=turn * 10)
        gone = {held[place].id for place in places if place < len(held)}
        update_index(folder / "index", add=new, delete=sorted(gone))
        held = [passage for passage in held if passage.id not in gone] + new
    check_equal(folder / "index", held, folder)


# Strange passages


def engine_of(path: Path, passages: list[Passage]) -> EmbeddedEngine:
    build_index(passages, path)
    assert verify(path) == []
    return open_index(path)


def test_an_index_of_no_passages_answers_every_query_with_nothing(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, [])
    assert len(engine) == 0
    refinements = [*G4.refinements("contents", "green"), *G4.refinements("title", "green muppet")]
    for query in (Query(""), Query("green"), *(Query("green", (refinement,)) for refinement in refinements)):
        assert list(engine.search(query)) == []
        assert [list(hits) for hits in engine.refine(query, refinements)] == [[]] * len(refinements)
    with pytest.raises(UnknownPassageError):
        engine.passages(["p0"])


def test_an_index_of_one_passage(tmp_path: Path) -> None:
    passages = [Passage("only", "green", "a muppet in a can")]
    engine_of(tmp_path, passages)
    check_searches_like_the_reference(tmp_path, passages, ["green", "muppet", "nowhere", "green muppet"])


def test_passages_without_words_and_with_stop_words_only(tmp_path: Path) -> None:
    passages = [
        Passage("empty", "", ""),
        Passage("title only", "green", ""),
        Passage("text only", "", "green"),
        Passage("stop words", "the", "of the and to be"),
        Passage("no letters", "!!!", "… — \u200b"),
        Passage("line breaks", "\n", "\r\n\t\0"),
    ]
    engine = engine_of(tmp_path, passages)
    assert engine.passages([passage.id for passage in passages]) == passages
    check_searches_like_the_reference(tmp_path, passages, ["green", "the", "of the", "be green"])


def test_an_index_of_stop_words_only_finds_nothing(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, [Passage(str(number), "the", "to be or not to be") for number in range(3)])
    assert list(engine.search(Query("the to be", tuple(G4.refinements("title", "the"))))) == []


@pytest.mark.long
def test_a_passage_of_100_000_words(tmp_path: Path) -> None:
    rng = random.Random(3)
    long = Passage("long", "a long one", " ".join(rng.choices(WORDS, k=100_000)))
    same = Passage("same", "", "muppet " * 100_000)
    passages = [*passages_of(5), long, same]
    engine = engine_of(tmp_path, passages)
    assert engine.passages(["long", "same"]) == [long, same]
    check_searches_like_the_reference(tmp_path, passages, ["muppet", "long", "green muppet", "muppet muppet"])


def test_a_word_longer_than_any_token_is_cut_as_lucene_cuts_it(tmp_path: Path) -> None:
    passages = [Passage("long word", "x" * 1000, "y" * 255 + " " + "z" * 256), Passage("other", "", "x y z")]
    engine_of(tmp_path, passages)
    check_searches_like_the_reference(tmp_path, passages, ["y" * 255, "z" * 255, "z", "x" * 235])


def test_ids_may_be_huge_and_of_any_script(tmp_path: Path) -> None:
    ids = ["x" * 100_000, "x" * 99_999, "東京", "naïve café", "🦜", "a b", "#1", " ", "0", "00", "\u0301", "А", "A"]
    passages = [Passage(passage_id, "", "green") for passage_id in ids]
    engine = engine_of(tmp_path, passages)
    assert [hit.id for hit in engine.search(Query("green"), 100)] == ids
    assert engine.passages(ids) == passages
    update_index(tmp_path, delete=["x" * 100_000, "🦜", "А"])
    kept = [passage_id for passage_id in ids if passage_id not in ("x" * 100_000, "🦜", "А")]
    assert [hit.id for hit in open_index(tmp_path).search(Query("green"), 100)] == kept


def test_two_ids_that_differ_in_one_letter_are_two(tmp_path: Path) -> None:
    ids = [f"{'x' * 50}{number}" for number in range(3000)]
    engine = engine_of(tmp_path, [Passage(passage_id, "", "") for passage_id in ids])
    assert [engine.index.number(passage_id) for passage_id in ids] == list(range(3000))
    assert engine.index.number("x" * 50) is None


def test_an_id_given_twice_is_named_with_its_places(tmp_path: Path) -> None:
    passages = [*passages_of(5), Passage("p2", "", "")]
    with pytest.raises(DuplicateIdError, match=r"two passages have the id 'p2' \(number 3 and number 6\)"):
        build_index(passages, tmp_path / "index")


def test_random_unicode_is_stored_as_it_was(tmp_path: Path) -> None:
    rng = random.Random(5)

    def text() -> str:
        points = (rng.randrange(0x110000) for _ in range(200))
        return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)

    passages = [Passage(f"p{number}", text(), text()) for number in range(50)]
    engine = engine_of(tmp_path, passages)
    assert engine.passages([passage.id for passage in passages]) == passages


# Paths


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(IndexMissingError, match="is a file; name a folder"):
        build_index(passages_of(1), tmp_path / "file")
    with pytest.raises(IndexMissingError, match="that is a file, an index is a folder"):
        open_index(tmp_path / "file")
    with pytest.raises(OrienteerError, match="cannot write an index at"):
        build_index(passages_of(1), tmp_path / "file" / "index")
    assert (tmp_path / "file").read_text() == "mine"


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    build_index(passages_of(1), tmp_path / "a" / "b" / "c")
    assert len(open_index(str(tmp_path / "a" / "b" / "c"))) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OrienteerError, match="cannot write an index"):
        build_index(passages_of(1), tmp_path / "index")


def test_arrays_are_read_only(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, passages_of(3))
    with pytest.raises(ValueError, match="read-only"):
        engine.index.array("documents")[0] = 7


def test_every_file_is_a_plain_npy_that_numpy_reads(tmp_path: Path) -> None:
    manifest: Manifest = build_index(passages_of(9), tmp_path)
    index = Index.open(tmp_path)
    for name in manifest.files:
        loaded = np.load(tmp_path / manifest.folder / name, allow_pickle=False)
        assert np.array_equal(loaded, index.array(name.removesuffix(".npy")))
