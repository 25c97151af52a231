"""The sentence or two that answer how and why."""

from __future__ import annotations

import pytest

from orienteer.data.passage import Passage, Question
from orienteer.reader.protocol import Reading
from orienteer.session import SeenPassage, Session
from orienteer.session.sentences import answer_sentences, asks_for_sentences, sentences

TEXT = (
    "Ardle Light was built in 1871 by Dr. Holt. The lamp was painted red because sailors mistook it for a star. "
    "Painting took a week. Birds nest there."
)


def session(question: str, answer: str, span: float) -> Session:
    start = TEXT.index(answer)
    seen = SeenPassage(Passage("a", "", TEXT), Reading(0.5, 0.0, answer, start, start + len(answer), span), 0, 1)
    return Session(Question("q", question), (), (seen,), (seen,))


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("why is the lamp red", True),
        ("How do birds nest", True),
        ("how many birds nest there", False),
        ("how old is the tower", False),
        ("who painted the lamp", False),
        ("show me how", False),
    ],
)
def test_how_and_why_ask_for_sentences_unless_they_ask_for_a_number(question: str, wanted: bool) -> None:
    assert asks_for_sentences(question) is wanted


def test_a_text_is_cut_at_sentences_and_not_after_an_abbreviation() -> None:
    cut = [TEXT[start:end] for start, end in sentences(TEXT)]
    assert cut[0] == "Ardle Light was built in 1871 by Dr. Holt."
    assert cut[-2:] == ["Painting took a week.", "Birds nest there."]
    assert [tuple(span) for span in sentences("")] == [(0, 0)]


def test_why_gets_the_sentence_that_has_the_words_of_the_question() -> None:
    found = answer_sentences(session("why was the lamp painted red", "Birds", -3.0))
    assert found is not None
    assert TEXT[found.start : found.end] == "The lamp was painted red because sailors mistook it for a star."


def test_a_neighbour_comes_with_it_where_it_has_further_words_of_the_question() -> None:
    found = answer_sentences(session("how did sailors see the lamp of the tower built by Holt", "star", -3.0))
    assert found is not None
    assert TEXT[found.start : found.end].startswith("Ardle Light was built")
    assert TEXT[found.start : found.end].endswith("for a star.")


def test_a_short_answer_that_the_reader_is_sure_of_stays() -> None:
    assert answer_sentences(session("why was the lamp painted red", "sailors mistook it", -0.2)) is None
    assert answer_sentences(session("who built it", "Dr. Holt", -5.0)) is None
