"""`refine` against one search each and against the reference engine: every operator, after any earlier refinements.

A *pair* is a state (a question and the refinements made so far) and one further refinement of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import QUERIES, corpora, reference, refinements

from lucene_bench import lucene_index, lucene_search
from orienteer.data import read_passages, read_questions
from orienteer.data.passage import Passage
from orienteer.engine.embedded import refine as refining
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.protocol import Hit
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import TooManyClausesError
from orienteer.query import FIELDS, G4, Query, Refinement, parse

FEW = settings(max_examples=settings().max_examples // 3)  # each example builds an index


@dataclass(frozen=True)
class Cut:
    """How a pass is cut up, and how many of the query's own results it keeps: nothing that may be seen from outside."""

    window: int
    base_results: int

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(refining, "WINDOW", self.window)
        patch.setattr(refining, "BASE_RESULTS", self.base_results)


USUAL = Cut(refining.WINDOW, refining.BASE_RESULTS)
CUTS = [Cut(*cut) for cut in product([1, 2, 3, 8, 1 << 14], [1, 2, 3, 64])]


def check(
    engine: EmbeddedEngine,
    slow: ReferenceEngine | None,
    query: Query,
    candidates: Sequence[Refinement],
    k: int,
    cut: Cut,
) -> int:
    """Compare every pair of a state; returns how many there were."""
    refined = engine.refine(query, candidates, k)
    assert len(refined) == len(candidates)
    for refinement, hits in zip(candidates, refined, strict=True):
        one = query.refine(refinement)
        assert list(hits) == list(engine.search(one, k)), f"{one} k={k} {cut}"
        if slow is not None:
            assert list(hits) == slow.search(one, k), f"{one} k={k} {cut}"
    return len(candidates)


def opened(passages: Sequence[Passage], folder: Path) -> EmbeddedEngine:
    build_index(passages, folder, threads=1)
    return open_index(folder, threads=1)


# Every passage over a vocabulary, up to a length.


def universe(words: Sequence[str], longest_title: int, longest_text: int) -> list[Passage]:
    def texts(longest: int) -> Iterator[str]:
        for length in range(longest + 1):
            yield from map(" ".join, product(words, repeat=length))

    pairs = product(texts(longest_title), texts(longest_text))
    return [Passage(str(number), title, text) for number, (title, text) in enumerate(pairs)]


UNIVERSES = {
    "two words": (["red", "sea"], 2, 3),
    "two words and a stop word": (["red", "sea", "the"], 1, 3),
    "three words": (["red", "sea", "sky"], 1, 3),
}
TERMS = [
    "red", "sea", "sky", "Sea", "absent", "the",
    "red sea", "sea red", "red red", "red the sea", "the red", "sea absent",
]  # fmt: skip
CANDIDATES = [
    *(refinement for term in TERMS for field in FIELDS for refinement in G4.refinements(field, term)),
    *(Refinement("^", field, term, w) for term in TERMS[:8] for field in FIELDS for w in (1.0, 1000.0, 0.001)),
]


def states(rng: random.Random, count: int) -> Iterator[Query]:
    """States after 0 to 5 refinements, drawn from all candidates, so that terms come again with other operators."""
    for number in range(count):
        question = " ".join(rng.choice(["red", "sea", "sky", "the", "absent"]) for _ in range(rng.randint(0, 4)))
        yield Query(question, tuple(rng.choices(CANDIDATES, k=number % 6)))


def walk_universe(name: str, folder: Path, patch: pytest.MonkeyPatch, count: int, seed: int) -> int:
    passages = universe(*UNIVERSES[name])
    engine, slow = opened(passages, folder), reference(passages)
    rng = random.Random(seed)
    pairs = 0
    for query in states(rng, count):
        cut = rng.choice([USUAL, *rng.sample(CUTS, 3)])
        cut.apply(patch)
        chosen = rng.sample(CANDIDATES, len(CANDIDATES) if rng.random() < 0.5 else 40)
        pairs += check(engine, slow, query, chosen + rng.choices(chosen, k=3), rng.randint(1, 20), cut)
    return pairs


@pytest.mark.long
@pytest.mark.parametrize("name", UNIVERSES)
def test_every_operator_on_every_small_passage(name, tmp_path, monkeypatch) -> None:
    assert walk_universe(name, tmp_path, monkeypatch, count=24, seed=11) > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("name", UNIVERSES)
def test_every_operator_on_every_small_passage_in_many_states(name, tmp_path, monkeypatch) -> None:
    assert walk_universe(name, tmp_path, monkeypatch, count=240, seed=12) > 25_000


def test_every_cut_of_the_pass_gives_the_same(tmp_path, monkeypatch) -> None:
    engine = opened(universe(*UNIVERSES["two words and a stop word"]), tmp_path)
    for query in states(random.Random(13), 6):
        USUAL.apply(monkeypatch)
        candidates = CANDIDATES[::3]
        wanted = {k: engine.refine(query, candidates, k) for k in (1, 7)}
        for cut, (k, lists) in product(CUTS, wanted.items()):
            cut.apply(monkeypatch)
            found = engine.refine(query, candidates, k)
            assert found.counts.tolist() == lists.counts.tolist(), f"{query} k={k} {cut}"
            present = np.arange(k) < lists.counts[:, None]
            assert (found.numbers == lists.numbers)[present].all(), f"{query} k={k} {cut}"
            assert (found.scores == lists.scores)[present].all(), f"{query} k={k} {cut}"


def test_many_states_at_once_give_what_each_gives_alone(tmp_path) -> None:
    engine = EmbeddedEngine(opened(universe(*UNIVERSES["two words and a stop word"]), tmp_path).index, threads=2)
    asked = list(states(random.Random(17), 12))
    candidates = [CANDIDATES[start::5] for start in range(12)]
    together = engine.refine_many(asked, candidates, 5)
    assert together == [engine.refine(query, own, 5) for query, own in zip(asked, candidates, strict=True)]


@pytest.mark.long
@FEW
@given(
    corpora(), st.lists(QUERIES, min_size=1, max_size=4), st.lists(refinements(), min_size=8, max_size=40),
    st.integers(1, 20), st.sampled_from([USUAL, *CUTS]),
)  # fmt: skip
def test_refine_gives_the_references_hits(tmp_path_factory, passages, queries, candidates, k, cut) -> None:
    engine, slow = opened(passages, tmp_path_factory.mktemp("refine")), reference(passages)
    with pytest.MonkeyPatch.context() as patch:
        cut.apply(patch)
        for query in queries:
            check(engine, slow, query, candidates, k, cut)


# Collections of more than one window.


def made_up(size: int, seed: int) -> list[Passage]:
    """Passages of some hundred words, the frequent ones in most of them; a few passages are very long."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(300)]
    weights = [1 / (n + 1) for n in range(300)]

    def text(low: int, high: int) -> str:
        return " ".join(rng.choices(words, weights, k=rng.randint(low, high)))

    return [Passage(str(n), text(0, 3), text(0, 2000 if n % 997 == 5 else 8)) for n in range(size)]


def walk_made_up(engine: EmbeddedEngine, rng: random.Random, count: int, candidates: int) -> int:
    words = [f"w{n}" for n in range(300)]

    def term() -> str:
        # Common words with one another, as phrases are: rare ones meet too seldom to be one.
        return rng.choice([rng.choice(words), f"w{rng.randrange(6)}", f"w{rng.randrange(4)} w{rng.randrange(4)}"])

    def refinement() -> Refinement:
        op, field = rng.choice("+-^^"), rng.choice(FIELDS)
        return Refinement(op, field, term(), rng.choice([0.1, 2.0, 8.0, 1000.0]) if op == "^" else 1.0)

    pairs = 0
    for number in range(count):
        question = " ".join(term() for _ in range(rng.randint(1, 5)))
        query = Query(question, tuple(refinement() for _ in range(number % 6)))
        chosen = [refinement() for _ in range(candidates)]
        pairs += check(engine, None, query, chosen, rng.choice([1, 5, 5, 20]), USUAL)
    return pairs


@pytest.mark.long
def test_refine_is_one_search_each_over_several_windows(tmp_path) -> None:
    engine = opened(made_up(2 * refining.WINDOW + 777, seed=6), tmp_path)
    assert walk_made_up(engine, random.Random(7), count=24, candidates=90) > 2_000


@pytest.mark.slow
def test_refine_is_one_search_each_over_many_windows(tmp_path) -> None:
    engine = opened(made_up(8 * refining.WINDOW + 777, seed=8), tmp_path)
    assert walk_made_up(engine, random.Random(9), count=120, candidates=120) > 14_000


@pytest.mark.long
def test_passages_far_longer_than_the_others_keep_their_places(tmp_path, monkeypatch) -> None:
    """Their terms weigh so little that rounding is the larger part of a bound."""
    rng = random.Random(14)
    passages = [Passage(f"s{n}", "", rng.choice(["red", "red sea", "sky", "sky red"])) for n in range(60)]
    for number in range(200):
        words = ["sea", "red"][: rng.randint(1, 2)] + ["sky"] * rng.choice([10, 1_000, 1_001, 3_000, 9_000])
        passages.insert(rng.randrange(len(passages)), Passage(f"long{number}", "", " ".join(words)))
    engine, slow = opened(passages, tmp_path), reference(passages)
    candidates = [Refinement("^", "contents", "sea", weight) for weight in (0.1, 1.0, 8.0, 37.0, 999.0, 1000.0)]
    candidates += [Refinement("+", "contents", "sea"), *(Refinement("^", "contents", "red", w) for w in (0.1, 1000.0))]
    for question, k, window in product(["", "sea", "red", "sea sky", "red sky sky"], range(1, 12), [4, 1 << 14]):
        cut = Cut(window, 64)
        cut.apply(monkeypatch)
        check(engine, slow, Query(question), candidates, k, cut)


# Real passages and questions.


@pytest.fixture(scope="session")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbeddedEngine, list[str]]:
    passages = list(islice(read_passages([shared_data / "data/passages/passages-0.jsonl.xz"]), 20_000))
    return opened(passages, tmp_path_factory.mktemp("real")), some_questions(shared_data)


@pytest.fixture(scope="session")
def whole_shard(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbeddedEngine, list[str]]:
    folder = tmp_path_factory.mktemp("shard")
    build_index(read_passages([shared_data / "data/passages/passages-0.jsonl.xz"]), folder)
    return open_index(folder, threads=1), some_questions(shared_data)


def some_questions(shared: Path) -> list[str]:
    rows = read_questions(shared / "data/questions/dev.jsonl.xz")
    return [row.question for row in islice(rows, 300)]


def candidates_of(engine: EmbeddedEngine, query: Query, rng: random.Random, terms: int) -> list[Refinement]:
    """All operators on words of the best passages, of the question and of anywhere, and on phrases of the passages."""
    passages = engine.passages([hit.id for hit in engine.search(query, 5)])
    words = [word for passage in passages for word in engine.analyze(passage.contents)] or ["absent"]
    chosen = {*rng.choices(words, k=terms), *engine.analyze(query.question)[:4], "the", "absentword"}
    chosen |= {engine.index.term(rng.randrange(engine.index.terms)) for _ in range(terms // 4)}
    for passage in passages[:2]:
        text = passage.text.split()
        start = rng.randrange(max(1, len(text) - 3))
        chosen.add(" ".join(text[start : start + rng.randint(2, 3)])[:200] or "absent")
    return [r for term in sorted(chosen) for field in FIELDS for r in G4.refinements(field, term)]


def walk_real(engine: EmbeddedEngine, questions: Sequence[str], rng: random.Random, terms: int) -> list[Query]:
    """Check all pairs of a state for each question; returns them as queries."""
    asked: list[Query] = []
    for number, question in enumerate(questions):
        query = Query(question)
        for _ in range(number % 6):
            refined = query.refine(rng.choice(candidates_of(engine, query, rng, 6)))
            query = refined if len(engine.search(refined, 1)) else query
        candidates = candidates_of(engine, query, rng, terms)
        check(engine, None, query, candidates, rng.choice([1, 5, 5, 20]), USUAL)
        asked += [query.refine(refinement) for refinement in candidates]
    return asked


@pytest.mark.long
def test_refine_is_one_search_each_on_real_passages(real) -> None:
    engine, questions = real
    assert len(walk_real(engine, questions[:24], random.Random(21), terms=16)) > 5_000


@pytest.mark.slow
def test_refine_is_one_search_each_on_a_whole_shard(whole_shard) -> None:
    engine, questions = whole_shard
    assert len(walk_real(engine, questions[:90], random.Random(22), terms=50)) > 60_000


@pytest.mark.slow
def test_refinements_of_a_whole_shard_are_lucenes(whole_shard, lucene_jar, tmp_path) -> None:
    engine, questions = whole_shard
    rng = random.Random(23)
    queries = rng.sample(walk_real(engine, questions[:30], rng, terms=20), 3_000)
    lucene_index(lucene_jar, (engine.index.passage(number) for number in range(len(engine))), tmp_path)
    for query, timed in zip(queries, lucene_search(lucene_jar, tmp_path, queries, 5, 1, 0), strict=True):
        assert timed.error is None
        wanted = [Hit(id, float(np.float32(score))) for id, score in timed.hits]  # as few digits as Java prints
        assert list(engine.search(query, 5)) == wanted, str(query)


# What is asked for at the edges.


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    return opened(universe(*UNIVERSES["two words"]), tmp_path_factory.mktemp("edges"))


def test_no_refinements_give_no_lists(engine) -> None:
    assert list(engine.refine(Query("red"), [], 5)) == []


def test_no_hits_are_asked_for_and_none_come(engine) -> None:
    assert [list(hits) for hits in engine.refine(Query("red"), CANDIDATES[:4], 0)] == [[]] * 4


def test_more_hits_than_passages_are_asked_for_and_all_that_match_come(engine) -> None:
    query, candidates = Query("red"), CANDIDATES[::7]
    lists = engine.refine(query, candidates, 10**6)
    assert [list(hits) for hits in lists] == [list(engine.search(query.refine(r), 10**6)) for r in candidates]


def test_a_state_that_matches_nothing_stays_so(engine) -> None:
    query = parse("red +(contents:absent)")
    assert all(len(hits) == 0 for hits in engine.refine(query, CANDIDATES, 5))


def test_a_state_of_exclusions_alone_is_saved_by_a_term(engine) -> None:
    query = parse("-(contents:red)")
    minus, plus = engine.refine(query, parse("-(title:sea) +(contents:sea)").refinements, 3)
    assert len(minus) == 0
    assert list(plus) == list(engine.search(parse("+(contents:sea) -(contents:red)"), 3))
    assert len(plus) == 3


def test_excluding_what_nearly_all_results_have_falls_back_to_a_search(engine, monkeypatch) -> None:
    monkeypatch.setattr(refining, "BASE_RESULTS", 1)
    asked: list[Query] = []
    search = engine.search
    monkeypatch.setattr(engine, "search", lambda query, k: asked.append(query) or search(query, k))
    query, exclusion = Query("red sea"), Refinement("-", "contents", "red")
    [hits] = engine.refine(query, [exclusion], 5)
    assert asked == [query.refine(exclusion)]
    assert list(hits) == list(search(query.refine(exclusion), 5))


def test_the_same_refinement_twice_gives_the_same_twice(engine) -> None:
    first, second, other = engine.refine(Query("red"), parse('"sea" (contents:sea^1) "Sea"').refinements, 5)
    assert list(first) == list(second) == list(other)


def test_one_clause_more_than_lucene_allows_is_refused(engine) -> None:
    query = Query(" ".join(f"w{n}-v{n}" for n in range(512)))
    with pytest.raises(TooManyClausesError, match="1025"):
        engine.refine(query, [Refinement("+", "contents", "red")], 5)


def test_result_lists_behave_as_lists(engine) -> None:
    lists = engine.refine(Query("red"), CANDIDATES[:6], 3)
    assert len(lists) == 6
    assert lists[2] == list(lists)[2]
    assert list(lists[1:4]) == list(lists)[1:4]
    assert lists == [list(hits) for hits in lists]
    assert lists.scores.shape == lists.numbers.shape == (6, 3)
