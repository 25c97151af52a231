"""Questions to begin with, made from the index itself."""

from __future__ import annotations

from pathlib import Path

from orienteer.data.passage import Passage
from orienteer.engine import ReferenceEngine, build_index, open_index
from orienteer.serve.start_questions import start_questions


def test_a_title_that_asks_is_asked_as_it_is_and_plain_names_come_before_headings(tmp_path: Path) -> None:
    titles = ["Corran Beacon", "The manual: Figures and tables", "How lamps are lit", "Brisk Point"]
    build_index([Passage(str(n), title, "some text") for n, title in enumerate(titles)], tmp_path / "index")
    asked = [each.question for each in start_questions(open_index(tmp_path / "index"), 3)]
    assert asked == ["How lamps are lit", "what is Corran Beacon", "what is Brisk Point"]


def test_an_index_of_headings_only_still_has_questions_and_one_that_lists_nothing_has_none(tmp_path: Path) -> None:
    build_index([Passage("1", "The manual: Figures", "some text")], tmp_path / "index")
    assert [each.question for each in start_questions(open_index(tmp_path / "index"))] == [
        "what is The manual: Figures"
    ]
    assert start_questions(ReferenceEngine([])) == []


def test_a_heading_that_asks_and_what_a_passage_defines_come_first(tmp_path: Path) -> None:
    passages = [
        Passage("1", "Guide: When a lamp fails", "This is the text."),
        Passage("2", "Guide: How is a lamp lit?", "By hand."),
        Passage("3", "Guide: Words", "A quondamite lantern (also: lamp) is a light for ferries."),
        Passage("4", "Guide: More", "Until now this is the best."),
        Passage("5", "2.30.0", "Notes."),
    ]
    build_index(passages, tmp_path / "index")
    asked = [each.question for each in start_questions(open_index(tmp_path / "index"), 2)]
    assert asked == ["How is a lamp lit?", "what is a quondamite lantern"]
