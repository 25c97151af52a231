"""The bound of a candidate: never below what it can reach, and reached by some reading."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orienteer.reader.answer_matching import exact_match, normalise
from orienteer.rocchio.judgements import AnswerSpans
from orienteer.rocchio.step_search import update_bounds
from orienteer.session import score, weights

LEVELS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
passages = st.tuples(st.sampled_from(LEVELS), st.booleans(), st.booleans())  # PS, relevant, exact
lambdas = st.sampled_from([(0.2, 0.6), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.3)])


def reached(best: list, new: list, l1: float, l2: float) -> float:  # type: ignore[type-arg]
    """The score of what is seen and these, by the session's own means."""
    ranked = sorted([*best, *new], key=lambda each: -each[0])[:5]
    return score(*map(list, zip(*ranked, strict=True)), lambda1=l1, lambda2=l2).total if ranked else 0.0  # type: ignore


def bound_of(best: list, new: list, read: list[bool], l1: float, l2: float) -> tuple[float, bool]:  # type: ignore[type-arg]
    columns = [np.array([each[i] for each in new]) for i in range(3)]
    seen = sorted(best, key=lambda each: -each[0])
    best_columns = [np.array([each[i] for each in seen], kind) for i, kind in enumerate((float, bool, bool))]
    bound, settled = np.zeros(1), np.zeros(1, np.bool_)
    table = np.array([[*range(len(new))]], np.int32)
    known = np.array(read, np.bool_)
    exact = columns[2] & known
    update_bounds(
        table, np.zeros(0, np.bool_), known, np.where(known, columns[0], 0.0), columns[1], columns[2], exact,
        *best_columns, np.array(weights()), l1, l2, bound, settled,
    )  # fmt: skip
    return float(bound[0]), bool(settled[0])


@pytest.mark.long
@settings(max_examples=300)
@given(st.lists(passages, max_size=5), st.lists(passages, min_size=1, max_size=3), st.data(), lambdas)
def test_the_bound_is_the_best_of_all_readings(best: list, new: list, data: st.DataObject, pair) -> None:  # type: ignore
    read = data.draw(st.lists(st.booleans(), min_size=len(new), max_size=len(new)))
    bound, settled = bound_of(best, new, read, *pair)
    unread = [i for i, known in enumerate(read) if not known]
    most = -1.0
    # An exact answer never hurts, so only the scores are tried; one may have to stay just below another.
    tried = [level - less for level in LEVELS for less in (0.0, 1e-7, 2e-7, 3e-7) if level >= less]
    for values in product(tried, repeat=len(unread)):
        trial = list(new)
        for i, value in zip(unread, values, strict=True):
            trial[i] = (value, new[i][1], new[i][2])
        most = max(most, reached(best, trial, *pair))
    assert settled == (not unread)
    assert most <= bound + 1e-9
    assert bound <= most + 1e-5


@given(st.lists(passages, max_size=5), st.lists(passages, min_size=1, max_size=5), lambdas)
def test_reading_more_never_raises_the_bound(best: list, new: list, pair) -> None:  # type: ignore
    bounds = [bound_of(best, new, [i < n for i in range(len(new))], *pair)[0] for n in range(len(new) + 1)]
    assert all(after <= before + 1e-9 for before, after in pairwise(bounds))
    assert abs(bounds[-1] - reached(sorted(best, key=lambda each: -each[0]), new, *pair)) < 1e-12


LETTERS = st.text(alphabet="thean TAH-.–'σΣςsi1", max_size=12)


@pytest.mark.long
@settings(max_examples=2000)
@given(LETTERS, LETTERS, LETTERS)
def test_a_text_in_which_no_answer_is_possible_has_no_exact_span(before: str, span: str, after: str) -> None:
    text = before + span + after
    start, end = len(before), len(before) + len(span)
    gold = text[start:end]
    if normalise(gold):
        assert exact_match(text[start:end], [gold])
        assert AnswerSpans([gold]).possible_in(text)


@pytest.mark.long
@settings(max_examples=500)
@given(st.text(alphabet="thean -x", max_size=14), st.text(alphabet="thean -x", max_size=6))
def test_any_span_of_a_text_that_matches_was_thought_possible(text: str, gold: str) -> None:
    if not normalise(gold):
        return
    spans = {text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    if any(exact_match(span, [gold]) for span in spans):
        assert AnswerSpans([gold]).possible_in(text)


def test_an_answer_that_the_text_does_not_hold_is_not_possible() -> None:
    assert not AnswerSpans(["Maren Holt"]).possible_in("the keeper of the light was Oskar Lind")
    assert AnswerSpans(["Maren Holt"]).possible_in("the keeper Maren (the) Holt")
