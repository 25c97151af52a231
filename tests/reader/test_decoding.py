"""The best span, against the obvious way to find it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orienteer.reader.decoding import best_span

logits = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[arrays(np.float32, n, elements=st.integers(-5, 5).map(float))] * 2, arrays(bool, n))
)


@given(logits, st.integers(1, 8))
def test_the_span_is_the_best_of_all_allowed_pairs(drawn, longest: int):
    start, end, continues = drawn
    size = len(start)
    whole = [
        (start[i] + end[j], -i, -j)
        for i in range(size)
        for j in range(i, min(size, i + longest))
        if not continues[i] and not (j + 1 < size and continues[j + 1])
    ]
    found = best_span(start, end, continues, longest)
    if whole and not continues.all():
        score, first, last = max(whole)
        assert (found.score, found.first, found.last) == (score, -first, -last)
    assert 0 <= found.first <= found.last < size


def test_an_answer_never_ends_inside_a_word():
    start = np.array([0, 5, 0, 0], np.float32)
    end = np.array([0, 9, 0, 0], np.float32)
    continues = np.array([False, False, True, False])
    assert best_span(start, end, continues)[:2] == (1, 2)


def test_a_word_of_more_pieces_than_an_answer_may_have_still_gives_an_answer():
    size = 30
    continues = np.array([False] + [True] * (size - 1))
    found = best_span(np.zeros(size, np.float32), np.zeros(size, np.float32), continues)
    assert np.isfinite(found.score)
