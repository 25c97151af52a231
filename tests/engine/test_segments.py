"""An index with a delta gives what one fresh index of the same passages gives: to the bit, in everything it tells."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import QUERIES, WORDS, refinements

from orienteer.data.passage import Passage
from orienteer.engine.embedded import build
from orienteer.engine.embedded.build import build_index, update_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.index import Index, verify_index
from orienteer.engine.embedded.segmented_engine import SegmentedEngine
from orienteer.engine.embedded.store import MANIFEST, read_manifest
from orienteer.engine.protocol import Similarity
from orienteer.engine.sharded.engine import open_shards
from orienteer.errors import DuplicateIdError, IndexCorruptError, IndexVersionError, UnknownPassageError
from orienteer.query import Query, Refinement, parse

FEW = settings(max_examples=settings().max_examples // 3)
TUNED = Similarity(0.7, 0.3, 0.9)
WHERE = "year>=2020 or year=1999"


@pytest.fixture(autouse=True)
def any_index_has_a_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "delta_limit", lambda passages: 8)


def passage(rng: random.Random, id: str) -> Passage:
    words = [*WORDS, f"only{rng.randrange(12)}"]
    title, text = (" ".join(rng.choices(words, k=rng.randrange(most))) for most in (3, 12))
    return Passage(id, title, text, {"year": rng.choice([1999, 2010, 2020, 2021])} if rng.random() < 0.8 else {})


def check_equal(engine: EmbeddedEngine, fresh: EmbeddedEngine, queries: Sequence[Query], options: Sequence[Refinement],
                k: int) -> None:  # fmt: skip
    """Everything that an engine tells."""
    assert len(engine) == len(fresh)
    assert [engine.passage_at(n) for n in range(len(fresh))] == [fresh.passage_at(n) for n in range(len(fresh))]
    ids = [fresh.id_at(number) for number in range(len(fresh))]
    assert [engine.number_of(id) for id in ids] == list(range(len(ids)))
    assert engine.passages_fingerprint == fresh.passages_fingerprint
    terms = [fresh.term(number) for number in range(fresh.vocabulary_size)]
    assert [engine.term(number) for number in range(engine.vocabulary_size)] == terms
    assert engine.term_numbers([*terms, "nowhere"]) == [*range(len(terms)), -1]
    for number, term in enumerate(terms):
        assert engine.term_idf(number) == fresh.term_idf(number)
        assert engine.term_probability(number) == fresh.term_probability(number)
        assert engine.idf("title", term) == fresh.idf("title", term)
    for id in ids:
        assert engine.passage_terms(id).tolist() == fresh.passage_terms(id).tolist()
    words = [("title", "nowhere"), *((field, term) for term in terms[:20] for field in ("contents", "title"))]
    words += [("contents", f"{one} {other}") for one, other in pairwise(terms[:6])]  # phrases
    for found, expected in zip(engine.postings(words), fresh.postings(words), strict=True):
        assert found.idf == expected.idf
        for some, others in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_array_equal(some, others)
    for found, expected in zip(engine.matches(words), fresh.matches(words), strict=True):
        np.testing.assert_array_equal(found, expected)
    pairs = [(engine, fresh)]
    if any(passage.metadata for passage in map(fresh.passage_at, range(len(fresh)))):
        pairs.append((engine.filtered(WHERE), fresh.filtered(WHERE)))
    for one, other in pairs:
        assert [list(hits) for hits in one.search_many(queries, k)] == [
            list(hits) for hits in other.search_many(queries, k)
        ]
        for query in queries:
            assert list(one.search(query, 1000)) == list(other.search(query, 1000)), str(query)
            assert [list(hits) for hits in one.refine(query, options, k)] == [
                list(hits) for hits in other.refine(query, options, k)
            ], str(query)
            np.testing.assert_array_equal(one.scores(query), other.scores(query))
            np.testing.assert_array_equal(one.scores_with(query, TUNED), other.scores_with(query, TUNED))
            for id in ids[:3] + ids[-3:]:
                assert one.explain(query, id) == other.explain(query, id), f"{query} {id}"


def history(path: Path, rng: random.Random, rounds: int) -> Iterator[list[Passage]]:
    """Adds and deletes at random; gives after each what a fresh index would be built of."""
    held = [passage(rng, f"p{number}") for number in range(rng.randrange(6, 40))]
    build_index(held, path, threads=1)
    for turn in range(rounds):
        gone = {each.id for each in rng.sample(held, min(len(held), rng.choice([0, 1, 1, 2, 3])))}
        new = [passage(rng, f"n{turn}-{number}") for number in range(rng.choice([0, 1, 1, 2, 3]))]
        if gone and rng.random() < 0.4:  # a changed passage keeps its id
            new.append(passage(rng, rng.choice(sorted(gone))))
        update_index(path, add=new, delete=gone, threads=1, merge=rng.random() < 0.05)
        held = [each for each in held if each.id not in gone] + new
        yield held


def walk(folder: Path, seed: int, rounds: int, queries: Sequence[Query], options: Sequence[Refinement], k: int) -> int:
    rng = random.Random(seed)
    segmented = 0
    for turn, held in enumerate(history(folder / "index", rng, rounds)):
        build_index(held, folder / "fresh", threads=1)
        engine = open_index(folder / "index", threads=1)
        segmented += isinstance(engine, SegmentedEngine)
        check_equal(engine, open_index(folder / "fresh", threads=1), queries, options, k)
        if turn % 5 == 0:
            assert verify_index(folder / "index") == []
    update_index(folder / "index", merge=True)
    assert open_index(folder / "index").fingerprint == open_index(folder / "fresh").fingerprint
    return segmented


@pytest.mark.long
@FEW
@given(
    st.integers(0, 1 << 30), st.lists(QUERIES, min_size=2, max_size=4), st.lists(refinements(), max_size=4),
    st.integers(1, 12),
)  # fmt: skip
def test_any_history_of_adds_and_deletes_gives_the_results_of_a_fresh_build(
    tmp_path_factory: pytest.TempPathFactory, seed: int, queries: list[Query], options: list[Refinement], k: int
) -> None:
    walk(tmp_path_factory.mktemp("segments"), seed, 4, queries, options, k)


QUESTIONS = [parse(text) for text in (
    "red sea", "+only3 ship red", "-only5 sea the ship", 'blue "red sea" only1', "+title:red only7^4", "absent only9",
    '+"green blue" sea', "title:ship^2 -title:red x-ray",
)]  # fmt: skip
OPTIONS = list(parse('+only2 -only4 "only6" only8^8 +title:sea -title:red "red ship" +absent').refinements)


def test_forty_rounds_have_a_delta_most_of_the_time_and_equal_fresh_builds(tmp_path: Path) -> None:
    assert walk(tmp_path, 7, 40, QUESTIONS[:4], OPTIONS, 5) > 15


@pytest.mark.slow
def test_1_000_rounds_equal_fresh_builds(tmp_path: Path) -> None:
    assert walk(tmp_path, 11, 1000, QUESTIONS, OPTIONS, 5) > 400


def test_shards_that_have_deltas_equal_one_index(tmp_path: Path) -> None:
    rng = random.Random(3)
    parts = [[passage(rng, f"{shard}-{number}") for number in range(12)] for shard in range(2)]
    for shard, part in enumerate(parts):
        build_index(part[:9], tmp_path / str(shard), threads=1)
        update_index(tmp_path / str(shard), add=part[9:], delete=[part[2].id], threads=1)
        assert read_manifest(tmp_path / str(shard)).base is not None
    build_index([each for part in parts for each in part if each is not part[2]], tmp_path / "one", threads=1)
    shards, one = open_shards([tmp_path / "0", tmp_path / "1"]), open_index(tmp_path / "one", threads=1)
    assert len(shards) == len(one)
    for where in (None, WHERE):
        left, right = (shards, one) if where is None else (shards.filtered(where), one.filtered(where))
        for query in QUESTIONS:
            assert list(left.search(query, 50)) == list(right.search(query, 50))
            assert [list(hits) for hits in left.refine(query, OPTIONS, 5)] == [
                list(hits) for hits in right.refine(query, OPTIONS, 5)
            ]


def with_delta(path: Path) -> list[Passage]:
    rng = random.Random(5)
    held = [passage(rng, f"p{number}") for number in range(12)]
    build_index(held[:10], path, threads=1)
    update_index(path, add=held[10:], delete=["p1", "p4"], threads=1)
    assert read_manifest(path).base is not None
    return [each for each in held if each.id not in ("p1", "p4")]


def test_a_commit_of_a_delta_leaves_the_base_and_one_delta(tmp_path: Path) -> None:
    with_delta(tmp_path)
    update_index(tmp_path, add=[Passage("x", "", "red")])
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "generation-000001", "generation-000003", MANIFEST, "write.lock",
    ]  # fmt: skip
    assert read_manifest(tmp_path).passages == 11


def test_a_delta_that_grows_too_large_is_merged(tmp_path: Path) -> None:
    held = with_delta(tmp_path)
    more = [Passage(f"x{number}", "", f"red {number}") for number in range(9)]
    update_index(tmp_path, add=more)
    assert read_manifest(tmp_path).base is None
    build_index([*held, *more], tmp_path / "fresh")
    assert read_manifest(tmp_path).fingerprint == read_manifest(tmp_path / "fresh").fingerprint


def test_mistakes_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with_delta(tmp_path)
    before = read_manifest(tmp_path)
    for id in ("p2", "p11"):
        with pytest.raises(DuplicateIdError, match=id):
            update_index(tmp_path, add=[Passage(id, "", "again")])
    for id in ("p1", "nobody"):
        with pytest.raises(UnknownPassageError, match=id):
            update_index(tmp_path, delete=[id])
    assert read_manifest(tmp_path) == before
    with pytest.raises(IndexVersionError, match="--merge"):
        Index.open(tmp_path)


def test_a_deleted_id_may_come_again(tmp_path: Path) -> None:
    with_delta(tmp_path)
    update_index(tmp_path, add=[Passage("p1", "", "again red")])
    assert open_index(tmp_path).passages(["p1"]) == [Passage("p1", "", "again red")]


@pytest.mark.parametrize("damage", ["falls", "beyond", "negative"])
def test_deleted_numbers_out_of_range_are_refused(tmp_path: Path, damage: str) -> None:
    from orienteer.engine.embedded import store

    with_delta(tmp_path)
    manifest = read_manifest(tmp_path)
    file = tmp_path / manifest.folder / "deleted.npy"
    values = {"falls": [4, 1], "beyond": [1, 10], "negative": [-1, 4]}[damage]
    file.write_bytes(file.read_bytes()[: store.HEADER_BYTES] + np.array(values, np.int64).tobytes())
    with pytest.raises(IndexCorruptError, match="deleted"):
        open_index(tmp_path)


def test_a_missing_base_is_one_clear_error(tmp_path: Path) -> None:
    with_delta(tmp_path)
    (tmp_path / "generation-000001" / "stream.npy").unlink()
    with pytest.raises(IndexCorruptError, match=r"stream\.npy is missing"):
        open_index(tmp_path)


def test_terms_in_bulk_are_those_asked_for_one_by_one(tmp_path: Path) -> None:
    passages = [Passage(str(n), f"title {n % 5}", f"the green muppet {n} of {n % 11} éclairs") for n in range(2500)]
    build_index(passages, tmp_path, threads=1)
    update_index(tmp_path, add=[Passage("new", "", "a zebra and the muppet")], delete=["3", "8"], threads=1)
    for engine in (open_index(tmp_path), _merged(tmp_path)):
        ids = ["new", "7", "no such id", "2499", "7"]
        assert [each.tolist() for each in engine.terms_of_passages(ids)] == [
            engine.passage_terms(each).tolist() for each in ids
        ]
        numbers = np.unique(np.concatenate(engine.terms_of_passages(ids)))
        assert engine.term_texts(numbers) == [engine.term(number) for number in numbers.tolist()]
        assert engine.term_idfs(numbers) == [engine.term_idf(number) for number in numbers.tolist()]
        assert engine.terms_of_passages([]) == []


def _merged(path: Path) -> EmbeddedEngine:
    update_index(path, merge=True, threads=1)
    return open_index(path)
