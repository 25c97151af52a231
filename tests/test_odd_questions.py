"""The questions that a person tries first on a folder of manuals: they are declined, and those that it answers are not.

The manuals (`orienteer/bundled/manuals`) tempt: they speak of Everest, gold, legs and Brazil. With the reader and the
weights of the day that this was written, one of the ten odd questions was answered, and all of the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orienteer import Searcher
from orienteer.bundled import MANUALS, bundled_questions


@pytest.mark.long
def test_most_odd_questions_over_manuals_are_declined_and_the_others_are_not(tmp_path: Path) -> None:
    searcher, questions = Searcher.index(MANUALS, tmp_path / "index"), bundled_questions("manuals")
    answers = list(searcher.ask_many([each.question for each in questions]))
    odd = [answer for question, answer in zip(questions, answers, strict=True) if not question.answers]
    others = [answer for question, answer in zip(questions, answers, strict=True) if question.answers]
    assert (len(odd), len(others)) == (10, 24)
    given = [each.question for each in odd if each.answered]
    assert len(given) <= 2, given
    assert all(each.passages for each in odd)  # the nearest passages are shown all the same
    declined = [each.question for each in others if not each.answered]
    assert len(declined) <= 2, declined
