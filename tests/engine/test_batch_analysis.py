"""The compiled tokenizer for many texts gives what the plain one gives for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orienteer.bundled import bundled_passages
from orienteer.engine.embedded.analysis import analyze_terms
from orienteer.engine.embedded.batch_analysis import analyze_texts


def test_passages_are_analysed_as_one_by_one() -> None:
    texts = ["", "the of and", *(passage.contents for passage in bundled_passages()), ""]
    assert analyze_texts(texts) == [analyze_terms(text) for text in texts]
    assert analyze_texts([]) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6))
def test_any_texts_are_analysed_as_one_by_one(texts: list[str]) -> None:
    assert analyze_texts(texts) == [analyze_terms(text) for text in texts]
