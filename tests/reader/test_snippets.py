"""The words around an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orienteer.reader.decoding import snippet

TEXT = "some tokens before the answer and tokens after it"


def around(words: int, answer: str = "answer", text: str = TEXT) -> str:
    start = text.index(answer)
    return snippet(text, start, start + len(answer), words)


def test_the_answer_stands_in_the_middle():
    assert around(3) == "the answer and"
    assert around(5) == "before the answer and tokens"


def test_an_odd_word_goes_to_the_right():
    assert around(4) == "the answer and tokens"


def test_what_one_side_cannot_use_goes_to_the_other():
    assert around(4, "some") == "some tokens before the"
    assert around(4, "it") == "and tokens after it"


def test_a_short_text_comes_whole():
    assert around(70) == TEXT


def test_an_answer_longer_than_the_snippet_is_cut_at_its_end():
    assert around(2, "the answer and tokens") == "the answer"


def test_without_an_answer_the_first_words_come():
    assert snippet(TEXT, 0, 0, 3) == "some tokens before"


def test_an_empty_text_and_no_words_give_nothing():
    assert snippet("", 0, 0, 30) == ""
    assert snippet(TEXT, 0, 4, 0) == ""


def test_an_answer_within_a_word_brings_the_whole_word():
    assert snippet("an answerable question", 3, 9, 1) == "answerable"


@given(st.text(alphabet="ab \n", max_size=60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_a_snippet_is_a_run_of_the_texts_words_no_longer_than_asked(text: str, a: int, b: int, words: int):
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    got, all_words = snippet(text, start, end, words).split(), text.split()
    assert len(got) == min(words, len(all_words))
    assert any(all_words[i : i + len(got)] == got for i in range(len(all_words) + 1))
