"""Facets of metadata: every count is the number of passages that the value's filter leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orienteer.data.passage import Passage
from orienteer.engine import ReferenceEngine, build_index, open_index, update_index
from orienteer.engine.facets import facets, filter_of
from orienteer.query.where import matches, parse_where

ROWS: list[dict[str, Any]] = [
    {"file": "reports/a.pdf", "folder": "reports", "date": "2020-03-01", "language": "en"},
    {"file": "reports/b.PDF", "folder": "reports", "date": "2021", "language": "de"},
    {"file": "notes.md.gz", "date": "2021-07", "language": "en"},
    {"file": "notes.txt", "date": "2021-07-09", "year": 2019, "tags": ["x", 'y "z"']},
    {"file": "odd", "tags": ["x"], "done": True},
    {},
]


def passages(rows: list[dict[str, Any]]) -> list[Passage]:
    return [Passage(f"p{n}", "Title", f"the lamp number {n}", row) for n, row in enumerate(rows)]


def test_facets_count_folders_types_years_and_languages(tmp_path: Path) -> None:
    build_index(passages(ROWS), tmp_path / "index")
    found = facets(open_index(tmp_path / "index"))
    shown = {facet.field: {each.value: each.passages for each in facet.values} for facet in found.facets}
    assert shown["type"] == {"pdf": 2, "md": 1, "txt": 1}
    assert shown["year"] == {"2021": 2, "2020": 1, "2019": 1}
    assert shown["language"] == {"en": 2, "de": 1}
    assert shown["tags"] == {"x": 2, 'y "z"': 1}
    assert (found.where, found.passages) == ("", 6)


def test_values_of_one_field_are_joined_by_or_and_fields_by_and(tmp_path: Path) -> None:
    build_index(passages(ROWS), tmp_path / "index")
    found = facets(open_index(tmp_path / "index"), {"year": ["2021", "2020"], "language": ["en"]})
    assert found.where == '("year"="2021" or "year"="2020") and "language"="en"'
    assert found.passages == 2
    shown = {facet.field: {each.value: each.passages for each in facet.values} for facet in found.facets}
    assert shown["year"] == {"2021": 1, "2020": 1}  # behind the language only
    assert shown["language"] == {"en": 2, "de": 1}  # behind the years only


def test_an_engine_without_metadata_has_no_facets() -> None:
    assert facets(ReferenceEngine(passages(ROWS))).facets == ()


def test_an_index_with_a_delta_counts_its_living_passages(tmp_path: Path) -> None:
    build_index(passages(ROWS), tmp_path / "index")
    new = Passage("new", "Title", "one more lamp", {"file": "more.pdf", "date": "2021"})
    update_index(tmp_path / "index", add=[new], delete=["p0"])
    shown = {facet.field: {each.value: each.passages for each in facet.values}
             for facet in facets(open_index(tmp_path / "index")).facets}  # fmt: skip
    assert shown["type"] == {"pdf": 2, "md": 1, "txt": 1}


SCALARS = st.one_of(st.text(max_size=6), st.integers(-3, 3), st.booleans(), st.floats(-2, 2).map(lambda x: round(x, 1)))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.none())
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "folder": st.text("ab/\"\\", max_size=4), "language": st.sampled_from(["en", "de"]), "kind": VALUES,
        "date": st.sampled_from(["2020", "2020-01", "2021-05-05", "soon"]),
        "file": st.sampled_from(["a.pdf", "b.txt.gz", "c"]),
    },
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(METADATA, min_size=2, max_size=12))
def test_every_count_is_what_the_filter_leaves_passage_by_passage(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("facets") / "index"
    build_index(passages(rows), folder)
    for facet in facets(open_index(folder)).facets:
        for each in facet.values:
            where = parse_where(filter_of({facet.field: [each.value]}))
            assert each.passages == sum(matches(where, row) for row in rows)
