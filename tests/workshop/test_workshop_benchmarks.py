"""The sets of `bench find-query` and the thumbs of `bench thumbs` are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from orienteer.bundled import bundled_engine
from orienteer.commands.terminal import benchmark
from orienteer.data.passage import Question
from orienteer.engine import EmbeddedEngine
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
