"""The tantivy adapter's own business: files, and what is missing."""

from __future__ import annotations

import sys

import pytest

from orienteer.errors import DuplicateIdError, IndexMissingError, MissingExtraError
from orienteer.query import Query

pytest.importorskip("tantivy")

from orienteer.engine.adapters.tantivy import TantivyEngine


def test_an_index_on_disk_is_opened_again(golden_passages, golden_answers, tmp_path) -> None:
    made = TantivyEngine(golden_passages, tmp_path / "index")
    opened = TantivyEngine(tmp_path / "index")
    queries = [query for query, _ in golden_answers]
    assert opened.search_many(queries, 5) == made.search_many(queries, 5)
    ids = [passage.id for passage in golden_passages]
    assert opened.passages(ids) == golden_passages


def test_a_folder_without_an_index_is_named(tmp_path) -> None:
    with pytest.raises(IndexMissingError, match=str(tmp_path)):
        TantivyEngine(tmp_path)


def test_an_empty_collection_answers_nothing() -> None:
    assert TantivyEngine([]).search(Query("anything"), 5) == []


def test_two_passages_with_one_id_are_refused_by_tantivy(golden_passages) -> None:
    with pytest.raises(DuplicateIdError, match="'empty'"):
        TantivyEngine([*golden_passages, golden_passages[0]])


def test_a_missing_tantivy_is_answered_with_the_line_that_installs_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(MissingExtraError, match=r"orienteer\[tantivy\]"):
        TantivyEngine([])
