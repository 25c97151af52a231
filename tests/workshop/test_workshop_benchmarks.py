"""The sets of `bench find-query` and the thumbs of `bench thumbs` are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orienteer.bundled import bundled_engine
from orienteer.commands.terminal import benchmark
from orienteer.data.passage import Question
from orienteer.engine import EmbeddedEngine
from orienteer.engine.embedded import bm25
from orienteer.errors import OrienteerError
from orienteer.query import Query


@pytest.fixture(scope="module")
def engine() -> EmbeddedEngine:
    return bundled_engine()


def test_simulated_thumbs_are_of_the_first_ten_and_so_many(engine: EmbeddedEngine) -> None:
    words = ["river", "king", "war", "metal", "city", "music", "planet", "island", "novel", "church", "army", "law"]
    questions = []
    for word in words:
        hits = [hit.id for hit in engine.search(Query(word), 12)]
        if len(hits) == 12:
            questions.append(Question(word, word, judgements=((hits[1], 1), (hits[11], 1))))
    given = benchmark("thumbs").thumbs_of(engine, questions, 7, np.random.default_rng(0))
    assert sum(len(each.judgements) for each in given) == 7
    for each in given:
        first = {hit.id for hit in engine.search(Query(each.question), 10)}
        assert {id for id, _ in each.judgements} <= first
        assert each.judgements[0][1] == 1


def test_the_interval_of_draws_and_questions_holds_its_mean_and_is_wider_for_fewer(engine: EmbeddedEngine) -> None:
    differences = np.random.default_rng(1).normal(0.1, 1.0, (40, 60))
    mean, low, high = benchmark("thumbs").interval(differences)
    assert low < mean < high
    _, few_low, few_high = benchmark("thumbs").interval(differences[:4, :6])
    assert few_high - few_low > high - low


def test_a_set_of_a_title_has_all_its_passages_and_no_other(engine: EmbeddedEngine) -> None:
    module = benchmark("find_query")
    title = engine.passage_at(0).title
    expected = [number for number in range(len(engine)) if engine.passage_at(number).title == title]
    assert module.of_title(engine, title) == expected


def test_more_like_this_finds_the_passages_that_it_was_made_of(engine: EmbeddedEngine) -> None:
    numbers = [engine.number_of(hit.id) for hit in engine.search(Query("river"), 8)]
    first = benchmark("find_query").more_like_this(engine, numbers)(8)
    assert len(set(numbers) & set(first)) >= 4


def test_scores_of_another_k1_and_b_are_compared_with_a_rebuilt_index_by_their_bits(engine: EmbeddedEngine) -> None:
    module, own = benchmark("tune"), (bm25.K1, bm25.B)
    questions = [Question(word, word) for word in ("river bank", "king", "metal")]
    found = module.compare_rebuilt(engine, questions, 2, seed=0)
    assert (found["queries"], found["equal_to_the_bit"]) == (6, 6)
    assert own == (bm25.K1, bm25.B)


def test_a_report_of_find_query_is_continued_and_one_of_another_seed_is_refused(
    engine: EmbeddedEngine, tmp_path: Path
) -> None:
    module, file = benchmark("find_query"), tmp_path / "report.json"
    assert module.finished(file, engine, 0) is None
    rows = {kind: [] for kind in module.KINDS} | {"title": [module.measure(engine, [0, 1, 2, 3], 5)]}
    file.write_text(json.dumps(module.outcome(engine, rows, 0)))
    assert module.finished(file, engine, 0) == rows
    with pytest.raises(OrienteerError, match="another index or seed"):
        module.finished(file, engine, 1)


def test_the_halves_of_a_set_are_its_passages_and_the_same_for_the_same_seed() -> None:
    seen, hidden = benchmark("find_query").halves(list(range(11)), 3)
    assert sorted([*seen, *hidden]) == list(range(11))
    assert (seen, hidden) == benchmark("find_query").halves(list(range(11)), 3)
