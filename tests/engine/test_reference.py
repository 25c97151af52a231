"""The reference engine and the arithmetic it shares with the fast one."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.protocol import Hit
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import DuplicateIdError, TooManyClausesError, UnknownFieldError, UnknownPassageError
from orienteer.query import Query, parse

SHARED = Path(__file__).parents[3] / "shared"

PASSAGES = [
    Passage("a", "The Lord of the Rings", "a novel about a ring"),
    Passage("b", "Rings", "the rings of a tree tell its age, ring by ring"),
    Passage("c", "", "lord of rings"),
    Passage("d", "The", "lord and rings"),
    Passage("e", "Tree", "lord rings"),
]


@pytest.fixture(scope="module")
def engine() -> ReferenceEngine:
    return ReferenceEngine(PASSAGES)


def found(engine: ReferenceEngine, query: str) -> list[str]:
    return sorted(hit.id for hit in engine.search(parse(query), 10))


def read(file: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)


def test_lengths_up_to_forty_are_kept_and_longer_ones_lose_all_but_four_bits() -> None:
    assert [bm25.encode_length(n) for n in range(41)] == list(range(41))
    kept = {n: int(bm25.LENGTHS[bm25.encode_length(n)]) for n in (41, 100, 111, 125)}
    assert kept == {41: 40, 100: 96, 111: 104, 125: 120}


def test_many_lengths_are_encoded_as_each_by_itself() -> None:
    lengths = np.array([0, 1, 39, 40, 41, 42, 1000, 123_456, 2**31 - 1])
    assert bm25.encode_lengths(lengths).tolist() == [bm25.encode_length(int(n)) for n in lengths]


def test_the_lengths_rise_with_the_norm_byte() -> None:
    assert bm25.LENGTHS.shape == (256,)
    assert (np.diff(bm25.LENGTHS) > 0).all()


def test_idf_is_cast_to_float32_and_falls_with_df() -> None:
    values = [bm25.idf(1000, df) for df in range(1001)]
    assert all(isinstance(value, np.float32) and value > 0 for value in values)
    assert (np.diff(values) < 0).all()


def test_the_norm_cache_is_float32_and_falls_with_length() -> None:
    cache = bm25.norm_cache(5_000, 100)
    assert cache.dtype == np.float32
    assert cache.shape == (256,)
    assert (np.diff(cache) < 0).all()


def test_the_golden_queries_give_lucenes_ids_and_float32_scores(golden_passages, golden_answers) -> None:
    engine = ReferenceEngine(golden_passages)
    for query, hits in golden_answers:
        assert engine.search(query, 5) == hits, str(query)


@pytest.mark.slow
def test_the_whole_corpus_gives_lucenes_ids_and_float32_scores() -> None:
    if not (SHARED / "oracle").is_dir():
        pytest.skip("the parity file is not beside the project")
    rows = read(SHARED / "data/passages/passages-0.jsonl.xz")
    engine = ReferenceEngine(Passage(row["id"], row.get("title") or "", row["text"]) for row in rows)
    for answer in list(read(SHARED / "oracle/lucene-parity.jsonl.xz"))[::20]:
        hits = [Hit(id, float(np.float32(score))) for id, score in answer["hits"]]
        assert engine.search(parse(answer["query"]), 5) == hits, answer["query"]


def test_a_required_term_that_no_passage_has_returns_nothing(engine) -> None:
    assert found(engine, "rings +(contents:absent)") == []


def test_a_query_of_exclusions_alone_returns_nothing(engine) -> None:
    assert found(engine, "-(contents:lord)") == []


def test_an_excluded_term_takes_its_passages_away(engine) -> None:
    assert found(engine, "rings -(title:tree)") == ["a", "b", "c", "d"]


def test_a_stop_word_leaves_a_gap_in_a_phrase(engine) -> None:
    assert found(engine, '"lord of rings"') == found(engine, '"lord and rings"') == ["c", "d"]
    assert found(engine, '"lord of the rings"') == ["a"]
    assert found(engine, '"lord rings"') == ["e"]


def test_stop_words_at_the_ends_of_a_phrase_change_nothing(engine) -> None:
    assert engine.search(parse('"the lord rings of"'), 5) == engine.search(parse('"lord rings"'), 5)


def test_a_title_of_stop_words_alone_is_no_title(engine) -> None:
    assert engine.idf("title", "rings") == float(bm25.idf(3, 2))


def test_the_same_word_twice_is_one_clause_with_its_boosts_added(engine) -> None:
    once = engine.search(parse("(contents:ring^3.5)"), 5)
    assert engine.search(parse("ring (contents:ring^2) (contents:ring^0.5)"), 5) == once


def test_a_required_and_an_optional_clause_of_one_word_both_score(engine) -> None:
    once, both = engine.search(parse("ring"), 1), engine.search(parse("ring +(contents:ring)"), 1)
    assert both[0].score == once[0].score * 2


def test_equal_scores_come_in_the_order_of_the_passages() -> None:
    copies = [Passage(id, "", "the same words") for id in ("z", "a", "m")]
    assert [hit.id for hit in ReferenceEngine(copies).search(Query("words"), 2)] == ["z", "a"]


def test_refine_is_search_one_by_one(engine) -> None:
    query = Query("lord of the rings")
    refinements = parse('+(title:rings) -(contents:tree) (contents:"lord rings"^4) "ring"').refinements
    assert engine.refine(query, refinements, 3) == [engine.search(query.refine(r), 3) for r in refinements]


def test_an_empty_collection_answers_nothing() -> None:
    engine = ReferenceEngine([])
    assert engine.search(Query("anything"), 5) == []
    assert engine.idf("title", "anything") > 0


def test_two_passages_with_one_id_are_refused() -> None:
    with pytest.raises(DuplicateIdError, match="'b'"):
        ReferenceEngine([*PASSAGES, Passage("b", "", "again")])


def test_an_unknown_id_is_named(engine) -> None:
    with pytest.raises(UnknownPassageError, match="'nobody'"):
        engine.passages(["a", "nobody"])


def test_an_unknown_field_is_named(engine) -> None:
    with pytest.raises(UnknownFieldError, match="'body'"):
        engine.idf("body", "ring")


def test_more_clauses_than_lucene_allows_are_refused_once_analysed(engine) -> None:
    assert engine.search(Query(" ".join(f"w{n}" for n in range(1024))), 1) == []
    with pytest.raises(TooManyClausesError, match="1026"):
        engine.search(Query(" ".join(f"w{n}-v{n}" for n in range(513))), 1)
