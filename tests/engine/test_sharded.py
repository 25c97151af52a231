"""Shards as one engine: ids, order and float32 bits of one index over all passages, wherever the shards live."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import QUERIES, corpora, refinements

from orienteer.bundled import bundled_passages, bundled_questions
from orienteer.data import read_passages, read_questions
from orienteer.data.passage import Passage
from orienteer.engine.check import check_engine
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.kernels.search import BLOCK, STEPS
from orienteer.engine.embedded.segments import with_totals
from orienteer.engine.open import absolute, open_engine
from orienteer.engine.sharded.engine import ShardedEngine, open_shards
from orienteer.engine.sharded.ray_transport import RayTransport
from orienteer.engine.sharded.shard_transport import ProcessTransport, ShardLostError
from orienteer.errors import (
    DuplicateIdError,
    IndexMissingError,
    OrienteerError,
    TooManyClausesError,
    UnknownFieldError,
    UnknownPassageError,
)
from orienteer.query import FIELDS, G4, Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES
from ray_nodes import second_node
from ray_nodes import two_nodes as two_nodes

FEW = settings(max_examples=settings().max_examples // 4)  # each example builds several indexes

Pair = tuple[EmbeddedEngine, ShardedEngine]


def write(passages: Sequence[Passage], cuts: Sequence[int], folder: Path) -> list[Path]:
    """An index for each run of passages between two cuts."""
    paths = []
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(passages)])):
        paths.append(folder / f"shard-{number}")
        build_index(passages[start:end], paths[-1], threads=1)
    return paths


def both(passages: Sequence[Passage], cuts: Sequence[int], folder: Path) -> Pair:
    """One index of all passages, and the same passages in shards."""
    build_index(passages, folder / "whole", threads=1)
    return open_index(folder / "whole", threads=1), open_shards(write(passages, cuts, folder))


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    passages = bundled_passages()
    return both(passages, [100, 130, 600], tmp_path_factory.mktemp("bundled"))


def made_up(size: int, seed: int) -> list[Passage]:
    """Passages that grow from a few words to some hundreds, so that every shard has another average length."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(200)]
    weights = [1 / (n + 1) for n in range(200)]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, weights, k=length))

    return [
        Passage(str(n), text(rng.randint(0, 1 + 12 * n // size)), text(rng.randint(1, 6 + 300 * n // size)))
        for n in range(size)
    ]


def states(rng: random.Random, questions: Sequence[str], words: Sequence[str], count: int) -> list[Query]:
    """Questions with none to five refinements, of every operator, words and phrases."""
    return [
        Query(rng.choice(questions), tuple(a_refinement(rng, words) for _ in range(rng.randint(0, 5))))
        for _ in range(count)
    ]


def a_refinement(rng: random.Random, words: Sequence[str]) -> Refinement:
    at = rng.randrange(len(words) - 2)
    term = " ".join(words[at : at + rng.choice([1, 1, 1, 2, 3])])
    return rng.choice(list(G4.refinements(rng.choice(FIELDS), term)))


def agree(pair: Pair, query: Query, candidates: Sequence[Refinement], k: int) -> None:
    """The same numbers and the same bits, for the query and for every refinement of it."""
    whole, parts = pair
    one, other = whole.search(query, k), parts.search(query, k)
    assert other.numbers.tolist() == one.numbers.tolist(), f"{query} k={k}"
    assert other.scores.tobytes() == one.scores.tobytes(), f"{query} k={k}"
    lists, others = whole.refine(query, candidates, k), parts.refine(query, candidates, k)
    assert others.counts.tolist() == lists.counts.tolist(), f"{query} k={k}"
    if not lists.counts.any():
        return
    here = np.arange(lists.numbers.shape[1]) < lists.counts[:, None]
    width = here.shape[1]
    assert (others.numbers[:, :width][here] == lists.numbers[here]).all(), f"{query} k={k}"
    assert others.scores[:, :width][here].tobytes() == lists.scores[here].tobytes(), f"{query} k={k}"


def walk(pair: Pair, questions: Sequence[str], words: Sequence[str], queries: int, each: int, seed: int) -> None:
    rng = random.Random(seed)
    for query in states(rng, questions, words, queries):
        agree(pair, query, [a_refinement(rng, words) for _ in range(each)], rng.choice([1, 5, 5, 10, 100]))


@pytest.mark.long
def test_a_thousand_queries_and_ten_thousand_refinements_equal_one_index(bundled) -> None:
    questions = [question.question for question in bundled_questions("train")]
    words = [term for passage in bundled_passages() for term in analyze(passage.contents)]
    walk(bundled, questions, words, queries=1000, each=10, seed=5)


@pytest.mark.long
def test_shards_of_very_different_lengths_equal_one_index(tmp_path) -> None:
    passages = made_up(6_000, seed=3)
    pair = both(passages, [2_000, 4_000, 5_900], tmp_path)
    words = [word for passage in passages[::60] for word in passage.text.split()]
    walk(pair, [" ".join(words[at : at + 4]) for at in range(0, 400, 4)], words, queries=150, each=40, seed=7)


def test_bounds_hold_under_the_statistics_of_the_whole(tmp_path) -> None:
    build_index(made_up(4_000, seed=4), tmp_path, threads=1)
    index = Index.open(tmp_path)
    longer = with_totals(index, index.field_counts * [[1, 9], [1, 9]])  # passages nine times as long on average
    offsets, codes = longer.array("offsets"), longer.array("codes")
    moved = 0
    for number in range(offsets.size - 1):
        if own := codes[offsets[number] : offsets[number + 1]].tolist():
            best = longer.saturation[own].max()
            assert longer.saturation[longer.array("best_codes")[number]] >= best
            moved += bool(longer.saturation[index.array("best_codes")[number]] < best)
    assert moved > 10, "the order of codes has to change for this to test anything"
    bounds = longer.block_bounds
    for row, number in enumerate(longer.array("long_lists").tolist()):
        part = slice(offsets[number], offsets[number + 1])
        bounds.fill(row, part.start, part.stop, longer.array("documents"), codes)
        saturation, block = longer.saturation[codes[part]], longer.array("documents")[part] // BLOCK
        share = 1.0 - 1.0 / saturation.astype(np.float64)
        highest = np.zeros(bounds.steps.shape[1])
        np.maximum.at(highest, block, share)
        assert (bounds.steps[row] >= highest * STEPS).all()
        assert ((bounds.steps[row] > 0) == (highest > 0)).all()


@pytest.mark.long
@FEW
@given(
    corpora(), st.lists(st.integers(0, 14), max_size=3), st.lists(QUERIES, min_size=3, max_size=6),
    st.lists(refinements(), max_size=12), st.integers(0, 20),
)  # fmt: skip
def test_any_cut_of_any_passages_equals_one_index(tmp_path_factory, passages, cuts, queries, candidates, k) -> None:
    cuts = sorted(min(cut, len(passages)) for cut in cuts)
    pair = both(passages, cuts, tmp_path_factory.mktemp("cut"))
    for query in queries:
        agree(pair, query, candidates, k)
    whole, parts = pair
    assert parts.search_many(queries, k) == whole.search_many(queries, k)
    for field, term in [("contents", "red"), ("title", "sea"), ("title", "absent")]:
        assert parts.idf(field, term) == whole.idf(field, term)


@pytest.mark.long
def test_the_sharded_engine_keeps_the_contract(golden_passages, tmp_path) -> None:
    engine = open_shards(write(golden_passages, [7, 20], tmp_path))
    check_engine(engine, golden_passages)


def test_the_sharded_engine_gives_lucenes_answers(golden_passages, golden_answers, tmp_path) -> None:
    engine = open_shards(write(golden_passages, [5, 6, 30], tmp_path))
    for query, hits in golden_answers:
        assert engine.search(query, 5) == hits, str(query)


@pytest.mark.long
def test_shards_in_processes_of_their_own_give_the_same(bundled, tmp_path) -> None:
    paths = write(bundled_passages(), [300], tmp_path)
    engine = open_shards(paths, processes=True)
    questions = [Query(question.question) for question in islice(bundled_questions("train"), 20)]
    assert engine.search_many(questions, 5) == bundled[0].search_many(questions, 5)
    candidates = [*G4.refinements("contents", "comet"), *G4.refinements("title", "rover")]
    assert engine.refine_many(questions, [candidates] * 20) == bundled[0].refine_many(questions, [candidates] * 20)
    engine.close()


@pytest.mark.long
def test_a_shards_process_that_is_killed_is_started_anew(bundled, tmp_path) -> None:
    transport = ProcessTransport(write(bundled_passages(), [300], tmp_path))
    engine = ShardedEngine(transport)
    query = Query("which comet was seen in 1986")
    for at in (0, 1):
        process, _ = transport._processes[at]
        process.kill()
        process.join()
        assert engine.search(query, 10) == bundled[0].search(query, 10)
    engine.close()


@pytest.mark.long
def test_a_shard_that_cannot_be_started_again_is_named(bundled, tmp_path, monkeypatch) -> None:
    transport = ProcessTransport(write(bundled_passages(), [300], tmp_path))
    engine = ShardedEngine(transport)
    process, pipe = transport._processes[1]
    process.kill()
    process.join()
    monkeypatch.setattr(transport, "_start", lambda path: (process, _closed(pipe)))
    with pytest.raises(ShardLostError, match="shard-1 ended twice"):
        engine.search(Query("comet"), 5)
    transport._processes[1] = (process, pipe)
    engine.close()


def _closed(pipe):
    pipe.close()
    return pipe


def test_an_error_in_a_shards_process_is_the_callers(tmp_path) -> None:
    with pytest.raises(IndexMissingError, match="no index at"):
        open_shards([tmp_path / "nothing"], processes=True)


def test_passages_come_from_every_shard_in_the_order_asked(bundled) -> None:
    passages = bundled_passages()
    wanted = [passages[at] for at in (800, 0, 120, 99, 800)]
    assert bundled[1].passages([passage.id for passage in wanted]) == wanted
    with pytest.raises(UnknownPassageError, match="'no such id'"):
        bundled[1].passages([passages[0].id, "no such id"])


def test_two_shards_with_one_id_are_refused(tmp_path) -> None:
    one, two = Passage("a", "", "first"), Passage("b", "", "second")
    paths = write([one, two, two], [2], tmp_path)
    with pytest.raises(DuplicateIdError, match=r"'b' \(in shard 1 and shard 2"):
        open_shards(paths)


def test_the_same_mistakes_are_refused_as_by_one_index(bundled) -> None:
    whole, parts = bundled
    question = " ".join(f"a{n}-b{n}" for n in range(MAX_CLAUSES // 2))
    extra = Refinement("+", "contents", "rover")
    for engine in (whole, parts):
        with pytest.raises(TooManyClausesError, match="at most 1024"):
            engine.search(Query(question + " c-d"), 5)
        with pytest.raises(TooManyClausesError, match="1025 clauses"):
            engine.refine(Query(question), [extra], 5)
        assert len(engine.refine(Query(question), [Refinement("+", "contents", "the")], 5)) == 1
        with pytest.raises(UnknownFieldError, match="'body'"):
            engine.idf("body", "rover")
    with pytest.raises(OrienteerError, match="no shard"):
        open_shards([])


def test_folders_with_commas_between_are_opened_as_shards_and_one_folder_as_an_index(bundled, tmp_path) -> None:
    paths = write(bundled_passages(), [300], tmp_path)
    engine, query = open_engine(",".join(map(str, paths))), Query("which comet was seen in 1986")
    assert isinstance(engine, ShardedEngine)
    assert engine.search(query, 5) == bundled[0].search(query, 5)
    comma = tmp_path / "one,folder"
    paths[0].rename(comma)
    assert isinstance(open_engine(comma), EmbeddedEngine)


def test_an_address_is_the_same_from_any_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one,folder").mkdir()
    assert absolute("one,folder") == tmp_path / "one,folder"
    assert str(absolute("a,b")) == f"{tmp_path}/a,{tmp_path}/b"
    assert str(absolute("ray:a,b")) == f"ray:{tmp_path}/a,{tmp_path}/b"
    assert str(absolute("https://host:9200/index")) == "https:/host:9200/index", (
        "as a Path writes it, and as it is read"
    )


def test_the_fingerprint_names_the_shards_and_their_order(bundled, tmp_path) -> None:
    paths = write(bundled_passages(), [100, 130, 600], tmp_path)
    assert open_shards(paths).fingerprint == bundled[1].fingerprint
    assert open_shards(paths[::-1]).fingerprint != bundled[1].fingerprint


# Real passages.


@pytest.fixture(scope="module")
def encyclopedia(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """440,000 passages of a real corpus as one index, and each of the corpus's files as a shard."""
    files = [shared_data / f"data/passages/passages-{number}.jsonl.xz" for number in range(4)]
    if missing := [file.name for file in files if not file.is_file()]:
        pytest.skip(f"needs the passages {missing[0]} in the folder {shared_data.name}/ beside the project's own")
    folder = tmp_path_factory.mktemp("encyclopedia")
    build_index(read_passages(files), folder / "whole", threads=2)
    for file in files:
        build_index(read_passages([file]), folder / file.name, threads=2)
    return open_index(folder / "whole", threads=1), open_shards([folder / file.name for file in files])


@pytest.mark.slow
def test_four_shards_of_real_passages_equal_one_index(encyclopedia, shared_data) -> None:
    questions = [q.question for q in islice(read_questions(shared_data / "data/questions/dev.jsonl.xz"), 1000)]
    whole, parts = encyclopedia
    assert len(parts) == whole.index.size > 400_000
    words = [term for question in questions for term in analyze(question)]
    walk(encyclopedia, questions, words, queries=1000, each=10, seed=9)
    for question in questions[:100]:
        seen = [term for hit in whole.search(Query(question), 3) for term in analyze(whole.passages([hit.id])[0].text)]
        if len(seen) > 2:
            rng = random.Random(question)
            agree(encyclopedia, Query(question), [a_refinement(rng, seen) for _ in range(200)], 5)


# A Ray cluster.


class FewerAnswers:
    """What `RayTransport` uses of Ray, with actors of this process; the first calls find an actor away, or dead."""

    class exceptions:
        class RayActorError(Exception): ...

        class ActorUnavailableError(RayActorError): ...

    def __init__(self, away: int, error: type[Exception]):
        self._away, self._error = away, error

    def remote(self, **options):
        return lambda actor: SimpleNamespace(
            options=lambda **own: SimpleNamespace(remote=lambda *a: Calling(actor(*a)))
        )

    def put(self, value):
        return value

    def get(self, call):
        self._away -= 1
        if self._away >= 0:
            raise self._error
        return call()


class Calling:
    """Calls that are made when their answer is asked for."""

    def __init__(self, actor):
        self.call = SimpleNamespace(remote=lambda *arguments: lambda: actor.call(*arguments))


def test_a_shard_whose_actor_is_away_is_asked_again_and_a_dead_one_is_named(bundled, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("orienteer.engine.sharded.ray_transport.time.sleep", lambda seconds: None)
    paths, errors = write(bundled_passages(), [300], tmp_path), FewerAnswers.exceptions
    engine = ShardedEngine(RayTransport(paths, FewerAnswers(5, errors.ActorUnavailableError)))
    query = Query("which comet was seen in 1986")
    assert engine.search(query, 10) == bundled[0].search(query, 10)
    with pytest.raises(ShardLostError, match=r"shard-0 died .* \(RayActorError\)"):
        ShardedEngine(RayTransport(paths, FewerAnswers(1, errors.RayActorError)))
    monkeypatch.setattr("orienteer.engine.sharded.ray_transport.RESTART_TIMEOUT", -1.0)
    with pytest.raises(ShardLostError, match="ActorUnavailableError"):
        ShardedEngine(RayTransport(paths, FewerAnswers(1, errors.ActorUnavailableError)))


@pytest.mark.slow
def test_shards_in_actors_of_two_nodes_give_the_same_and_survive_their_death_and_a_nodes(
    bundled, tmp_path, two_nodes
) -> None:
    import ray

    transport = RayTransport(write(bundled_passages(), [300, 500, 700], tmp_path), ray)
    engine = ShardedEngine(transport)
    engine.check_ids()
    questions = [Query(question.question) for question in bundled_questions("train")[:10]]
    candidates = [*G4.refinements("contents", "comet"), *G4.refinements("title", "rover")]
    wanted = bundled[0].search_many(questions, 5), bundled[0].refine_many(questions, [candidates] * 10)
    assert (engine.search_many(questions, 5), engine.refine_many(questions, [candidates] * 10)) == wanted
    ray.kill(transport._actors[2], no_restart=False)
    assert (engine.search_many(questions, 5), engine.refine_many(questions, [candidates] * 10)) == wanted
    with second_node(two_nodes) as node:
        node.kill()
        assert (engine.search_many(questions, 5), engine.refine_many(questions, [candidates] * 10)) == wanted
    engine.close()
    with pytest.raises(IndexMissingError, match="no index at"):
        ShardedEngine(RayTransport([tmp_path / "nothing"], ray))


@pytest.mark.slow
def test_an_address_puts_shards_on_ray(bundled, tmp_path, two_nodes) -> None:
    paths = write(bundled_passages(), [300], tmp_path)
    engine, query = open_engine("ray:" + ",".join(map(str, paths))), Query("which comet was seen in 1986")
    assert isinstance(engine, ShardedEngine)
    assert engine.search(query, 5) == bundled[0].search(query, 5)
    engine.close()
    with pytest.raises(OrienteerError, match="no shard after 'ray:'"):
        open_engine("ray:")
