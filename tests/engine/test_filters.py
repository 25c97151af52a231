"""Filtered search, refinements, scores and explanations: the reference's results over all passages, then filtered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_refine import CUTS, Cut
from test_search import QUERIES, corpora, reference, refinements

from orienteer.data.passage import Passage
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import open_index
from orienteer.engine.protocol import Engine, Explains, Filters, Hit, ScoresAll, filtered
from orienteer.engine.reference import ReferenceEngine
from orienteer.engine.sharded.engine import open_shards
from orienteer.errors import FilterError
from orienteer.query import Query, parse, parse_where
from orienteer.query.where import matches

FEW = settings(max_examples=settings().max_examples // 3)

METADATA = st.fixed_dictionaries(
    {},
    optional={
        "year": st.sampled_from([1999, 2020, 2021, "2020", 2020.5]),
        "folder": st.sampled_from(["reports", "reports/2021", "old", ""]),
        "tags": st.lists(st.sampled_from(["red", "sea"]), max_size=2),
        "draft": st.booleans(),
        "date": st.sampled_from(["2020", "2021-03", "2019-12-31"]),
    },
)
CONDITIONS = st.sampled_from(
    ["year>=2020", "year=2020", "year<2021", "folder:reports", "folder=old", "tags:red", "draft=true", "year:*",
     "folder!=old", "date<=2020"]
)  # fmt: skip
WHERE = st.recursive(
    CONDITIONS,
    lambda part: st.one_of(
        part.map(lambda text: f"not ({text})"),
        st.tuples(part, st.sampled_from(["and", "or"]), part).map(lambda each: f"({each[0]}) {each[1]} ({each[2]})"),
    ),
    max_leaves=4,
)


@st.composite
def described(draw: st.DrawFn) -> list[Passage]:
    """Passages with metadata; the last two have every field, so that no filter names an unknown one."""
    passages = [replace(passage, metadata=draw(METADATA)) for passage in draw(corpora())]
    known = {"year": 2020, "folder": "reports", "tags": ["red"], "draft": True, "date": "2021-03"}
    return [*passages, Passage("x", "red", "red sea", known), Passage("y", "", "sea", known | {"year": 1999})]


def expected(slow: ReferenceEngine, query: Query, where: str, passages: Sequence[Passage], k: int) -> list[Hit]:
    passing = {passage.id for passage in passages if matches(parse_where(where), passage.metadata)}
    return [hit for hit in slow.search(query, 10_000) if hit.id in passing][:k]


def check(engine: Engine, slow: ReferenceEngine, passages: Sequence[Passage], where: str, queries: Any, options: Any,
          k: int) -> None:  # fmt: skip
    narrowed = filtered(engine, where)
    wanted = [expected(slow, query, where, passages, k) for query in queries]
    assert [list(narrowed.search(query, k)) for query in queries] == wanted
    assert [list(hits) for hits in narrowed.search_many(queries, k)] == wanted
    for query in queries:
        lists = narrowed.refine(query, options, k)
        for option, hits in zip(options, lists, strict=True):
            assert list(hits) == expected(slow, query.refine(option), where, passages, k), f"{query} {option} {where}"
    for query in queries[:3] if isinstance(narrowed, ScoresAll) and isinstance(narrowed, Explains) else []:
        whole = dict(expected(slow, query, where, passages, 10_000))
        scores = narrowed.scores(query)
        for number, passage in enumerate(passages):
            assert scores[number] == whole.get(passage.id, -np.inf)
            explanation = narrowed.explain(query, passage.id)
            assert (explanation.matches, explanation.score) == (passage.id in whole, whole.get(passage.id, 0.0))


@pytest.mark.long
@FEW
@given(
    described(), WHERE, st.lists(QUERIES, min_size=2, max_size=6), st.lists(refinements(), max_size=6),
    st.integers(1, 12), st.sampled_from(CUTS),
)  # fmt: skip
def test_filtered_results_are_the_references_results_filtered(
    tmp_path_factory: pytest.TempPathFactory, passages: Any, where: str, queries: Any, options: Any, k: int, cut: Cut
) -> None:
    folder = tmp_path_factory.mktemp("index")
    build_index(passages, folder, threads=1)
    with pytest.MonkeyPatch.context() as patch:
        cut.apply(patch)
        check(open_index(folder, threads=1), reference(passages), passages, where, queries, options, k)


@pytest.mark.long
@FEW
@given(
    described(), st.integers(0, 12), WHERE, st.lists(QUERIES, min_size=2, max_size=4),
    st.lists(refinements(), max_size=4), st.integers(1, 12),
)  # fmt: skip
def test_filtered_shards_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, passages: Any, cut: int, where: str, queries: Any, options: Any, k: int
) -> None:
    folders = [tmp_path_factory.mktemp("shard") for _ in range(2)]
    build_index(passages[:cut], folders[0], threads=1)
    build_index(passages[cut:], folders[1], threads=1)
    check(open_shards(folders), reference(passages), passages, where, queries, options, k)


@pytest.fixture
def shelf(tmp_path: Any) -> Any:
    passages = [
        Passage(f"p{number}", "shelf", f"green muppet {number} street", {"year": 1990 + number // 100})
        for number in range(5000)
    ]
    build_index(passages, tmp_path)
    return open_index(tmp_path)


def test_filters_over_many_windows_skip_those_without_a_passage(shelf: Any) -> None:
    for where, first in (("year=1990", 0), ("year=2035", 4500), ("year>=2030 and year<2031", 4000)):
        narrowed = shelf.filtered(where)
        found = [hit.id for hit in narrowed.search(parse("green street"), 100)]
        assert found == [f"p{first + number}" for number in range(100)]
        [required, excluded] = narrowed.refine(parse("muppet"), parse("+street -green").refinements, 3)
        assert [hit.id for hit in required] == [f"p{first + number}" for number in range(3)]
        assert list(excluded) == []


def test_a_filter_of_a_filter_is_both(shelf: Any) -> None:
    narrowed = shelf.filtered("year>=2000").filtered("year<2001")
    assert {hit.id for hit in narrowed.search(parse("green"), 1000)} == {f"p{number}" for number in range(1000, 1100)}


def test_a_filter_changes_neither_the_index_nor_its_statistics_but_the_fingerprint(shelf: Any) -> None:
    narrowed = shelf.filtered("year=1990")
    assert narrowed.idf("contents", "7") == shelf.idf("contents", "7")
    assert len(narrowed) == len(shelf)
    assert narrowed.passages(["p4000"]) == shelf.passages(["p4000"])
    assert narrowed.fingerprint != shelf.fingerprint
    assert shelf.filtered("year=1990").fingerprint == narrowed.fingerprint


def test_a_field_that_no_passage_has_is_an_error_that_names_those_there_are(shelf: Any, tmp_path: Any) -> None:
    with pytest.raises(FilterError, match="no passage has a value of 'yaer'; the fields here are year"):
        shelf.filtered("yaer>2000")
    build_index([Passage("a", "", "red")], tmp_path / "bare")
    with pytest.raises(FilterError, match="have no metadata"):
        open_index(tmp_path / "bare").filtered("year=1")


def test_an_engine_without_filters_says_so() -> None:
    engine = ReferenceEngine([Passage("a", "", "red")])
    assert filtered(engine, None) is engine
    assert not isinstance(engine, Filters)
    with pytest.raises(FilterError, match="no filters"):
        filtered(engine, "year=1")
