"""When answers are the same, and when a text holds one."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orienteer.reader.answer_matching import (
    answer_forms,
    exact_match,
    f1,
    holds_answer,
    holds_answer_loosely,
    match_form,
    normalise,
)

TEXTS = st.lists(
    st.sampled_from(["the", "a", "an", "son", "so", "n", " ", "-", ".", "’", "–", "−", "é", "Σ", "\ud800"])
).map("".join)


def test_articles_case_and_punctuation_do_not_matter():
    assert exact_match("The A-Team's", ["ateams"])
    assert normalise("An apple,  a day") == "apple day"


def test_no_gold_answer_is_never_matched():
    assert not exact_match("Paris", [])
    assert f1("Paris", []) == 0.0


def test_f1_counts_shared_tokens_and_takes_the_best_gold_answer():
    assert f1("Leo Tolstoy", ["Tolstoy", "Count Leo Tolstoy"]) == pytest.approx(0.8)


def test_two_empty_answers_are_equal():
    assert f1("the", [""]) == 1.0


def test_an_answer_counts_only_as_whole_tokens():
    assert not holds_answer("two persons came", ["son"])
    assert holds_answer("his son came", ["son"])
    assert holds_answer_loosely("two persons came", ["son"])


def test_unicode_dashes_separate_tokens_and_the_hyphen_joins_them():
    assert holds_answer("the war of 1939–1945 in Europe", ["1945"])
    assert holds_answer("from 1939—he said—on", ["he said"])
    assert not holds_answer("the 1939-1945 war", ["1945"])
    assert holds_answer("the 1939-1945 war", ["1939-1945"])


def test_an_answer_that_normalises_to_nothing_is_dropped():
    assert not holds_answer("anything at all", ["the", "?!", ""])
    assert not holds_answer_loosely("anything at all", ["the", "?!", ""])


def test_an_answer_with_a_dash_is_found_where_the_text_has_another_dash():
    assert holds_answer("1990—1995", ["1990–1995"])


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_text_holds_every_run_of_words_put_into_it(before: str, answer: str, after: str):
    if normalise(answer):
        # A combining mark or a lone surrogate of a neighbour cannot join the answer across a blank.
        assert holds_answer(f"{before} {answer} {after}", [answer])


@given(st.text(max_size=80))
def test_normalising_twice_changes_nothing_more_than_articles_laid_bare(text: str):
    once = normalise(text)
    assert once == " ".join(once.split())
    assert exact_match(text, [text])


@given(TEXTS)
def test_the_normal_form_is_squads(text: str):
    letters = "".join(c for c in text.lower() if c not in string.punctuation)
    assert normalise(text) == " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_a_text_holds_an_answer_where_its_whole_form_does(text: str, answers: list[str]):
    assert holds_answer(text, answers) == any(form in match_form(text) for form in answer_forms(tuple(answers)))
