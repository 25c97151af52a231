"""The analyser gives Lucene's tokens, and the kernel that indexes gives the analyser's."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lucene_bench import lucene_analyze
from orienteer.data.passage import Passage
from orienteer.engine.embedded.analysis import (
    ACCEPTS,
    CLASS_OF,
    LOWER,
    MAX_TOKEN_UNITS,
    STOP_WORDS,
    TRANSITIONS,
    analyze,
    analyze_terms,
    tokenize,
    tokenize_by_rules,
)
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.index import NO_TERM, Index
from orienteer.engine.embedded.kernels.tokenize import tokenize_batch
from orienteer.engine.embedded.tokenizer_rules import CLASSES

GOLDEN = Path(__file__).parent / "golden"

Row = tuple[str, list[str | None]]


def golden(name: str) -> list[Row]:
    read = lzma.open if name.endswith(".xz") else open
    with read(GOLDEN / name, "rt", encoding="utf-8", newline="\n") as lines:
        return [tuple(json.loads(line)) for line in lines]


@pytest.fixture(scope="module")
def hard() -> list[Row]:
    return golden("tokens.jsonl")


@pytest.fixture(scope="module")
def drawn() -> list[Row]:
    return golden("tokens-random.jsonl.xz")


# Characters of every class, the common ones more often: random text of all Unicode rarely makes a long token.
_SAMPLES = {
    name: [chr(code) for code in np.flatnonzero(number == CLASS_OF)[:40].tolist()]
    for number, name in enumerate(CLASSES)
}
CHARACTERS = st.one_of(
    st.sampled_from("aBcE019 .,'’_-\"#"),
    st.sampled_from(sorted(_SAMPLES)).flatmap(lambda name: st.sampled_from(_SAMPLES[name])),
    st.characters(exclude_categories=("Cs",)),
)
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=60),
    st.lists(st.sampled_from(["the", "of", "don't", "x" * 250, "3.14", "東京", "😀", "_", "'", " "])).map("".join),
    st.tuples(st.text(CHARACTERS, min_size=1, max_size=3), st.integers(80, 300)).map(lambda p: p[0] * p[1]),
)


def test_the_hard_texts_give_lucenes_tokens(hard) -> None:
    for text, terms in hard:
        assert analyze_terms(text) == terms, text[:80]


def test_random_sequences_of_every_class_give_lucenes_tokens(drawn) -> None:
    for text, terms in drawn:
        assert analyze_terms(text) == terms, text[:80]


def test_the_golden_texts_reach_every_class_and_every_rule(hard, drawn) -> None:
    classes: set[int] = set()
    moves: set[tuple[int, int]] = set()
    for text, _ in [*hard, *drawn]:
        codes = CLASS_OF[np.frombuffer(text.encode("utf-32-le"), np.uint32)].tolist()
        classes.update(codes)
        for start in range(len(codes)):
            state, at = 1, start
            while state and at < min(len(codes), start + 40):
                moves.add((state, codes[at]))
                state = int(TRANSITIONS[state, codes[at]])
                at += 1
    assert classes == set(range(len(CLASSES)))
    rules = {(int(state), int(kind)) for state, kind in np.argwhere(TRANSITIONS) if state}
    assert rules <= moves


def test_the_kernel_gives_lucenes_tokens(hard, drawn) -> None:
    rows = [*hard, *drawn]
    assert by_kernel([("", text) for text, _ in rows]) == [([], terms) for _, terms in rows]


@pytest.mark.long
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
@example([("the", "x" * 254 + "\U0001d400x"), ("", "")])
def test_the_kernel_gives_the_analysers_tokens(texts) -> None:
    assert by_kernel(texts) == [(analyze_terms(title), analyze_terms(text)) for title, text in texts]


def test_the_words_of_a_passage_come_back_from_its_index(tmp_path) -> None:
    passage = Passage("p", "The İstanbul Café", "Swift’s U.S.A. tour of 1,234.5 km — 東京! The end.")
    build_index([Passage("o", "", "zebra"), passage], tmp_path / "index", threads=1)
    index = Index.open(tmp_path / "index")
    stream, ends = index.streams(np.arange(2))
    terms = [None if n == NO_TERM else index.term(n) for n in stream.tolist()]
    title = [None, "istanbul", "café"]
    text = ["swift’s", "u.s.a", "tour", None, "1,234.5", "km", "東", "京", None, "end"]
    assert terms == ["zebra", *title, *text]
    assert ends.tolist() == [1, 14]
    assert index.array("title_positions").tolist() == [0, 3]


@given(TEXTS, TEXTS)
def test_the_contents_of_a_passage_are_the_tokens_of_its_title_and_its_text(title, text) -> None:
    """A newline parts tokens, so the index need not analyse a title twice."""
    assert analyze_terms(f"{title}\n{text}") == analyze_terms(title) + analyze_terms(text)


@given(TEXTS)
def test_stop_words_are_the_only_difference_between_tokens_and_terms(text) -> None:
    tokens = tokenize(text)
    assert [token for token in tokens if token not in STOP_WORDS] == analyze(text)
    assert [None if token in STOP_WORDS else token for token in tokens] == analyze_terms(text)
    assert len(STOP_WORDS) == 33


@given(TEXTS)
def test_tokens_are_lower_case_pieces_of_the_text_in_order_and_none_is_too_long(text) -> None:
    lowered = "".join(chr(LOWER[ord(character)]) for character in text)
    at = 0
    for token in tokenize(text):
        found = lowered.find(token, at)
        assert found >= 0
        at = found + len(token)
        assert 0 < len(token.encode("utf-16-le")) // 2 <= MAX_TOKEN_UNITS
        assert token == "".join(chr(LOWER[ord(character)]) for character in token)


CIRCLED_M = "\u24c2"  # the one character whose lower case is of another class: a letter, no longer a picture


@given(TEXTS)
def test_an_index_term_analysed_again_is_itself(text) -> None:
    """What is read off a passage can be asked for as it stands."""
    for term in analyze(text.replace(CIRCLED_M, "")):
        assert analyze(term) == [term]


def test_only_a_circled_m_in_an_emoji_sequence_is_not_itself_when_analysed_again() -> None:
    changed = [code for code in range(0x110000) if CLASS_OF[code] != CLASS_OF[LOWER[code]]]
    assert changed == [ord(CIRCLED_M)]
    [term] = analyze(f"😀\u200d{CIRCLED_M}")
    assert analyze(term) != [term]


def test_a_lone_surrogate_is_no_token() -> None:
    assert tokenize("a\ud800b \udfff") == ["a", "b"]


@pytest.mark.slow
def test_every_code_point_is_lucenes_alone_and_between_letters_digits_and_pictures(lucene_jar) -> None:
    points = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    rng = random.Random(5)
    for start in range(0, len(points), 1 << 17):
        texts = [f"{c} a{c}b 1{c}2 א{c}ב ア{c}イ 漢{c} {c}😀{c}" for c in points[start : start + (1 << 17)]]
        texts = texts if start == 0 else [text for text in texts if interesting(text[0]) or rng.random() < 0.1]
        for text, terms in zip(texts, lucene_analyze(lucene_jar, texts), strict=True):
            assert analyze_terms(text) == terms, ascii(text)


def interesting(character: str) -> bool:
    return bool(CLASS_OF[ord(character)]) or int(LOWER[ord(character)]) != ord(character)


@pytest.mark.slow
def test_new_random_sequences_give_lucenes_tokens(lucene_jar) -> None:
    from golden.write_tokens import random_text, representatives

    rng = random.Random()
    characters = representatives(rng)
    texts = [random_text(rng, characters) for _ in range(50_000)]
    for text, terms in zip(texts, lucene_analyze(lucene_jar, texts), strict=True):
        assert analyze_terms(text) == terms, ascii(text)


def by_kernel(texts: Sequence[tuple[str, str]]) -> list[tuple[list[str | None], list[str | None]]]:
    """The terms of each (title, text) as `build_index` has them made: the stop words come first, as a text."""
    parts = [("", " ".join(sorted(STOP_WORDS))), *texts]
    sizes = [(0, len(title.encode()), len(text.encode())) for title, text in parts]
    bounds = np.cumsum(np.array(sizes, np.int64)).reshape(-1, 3)
    buffer = np.frombuffer("".join(title + text for title, text in parts).encode(), np.uint8)
    stream, ends, titles, _, term_ends, letters = tokenize_batch(
        buffer, bounds, CLASS_OF, LOWER, TRANSITIONS, ACCEPTS, len(STOP_WORDS)
    )
    places = term_ends.tolist()
    terms = [letters[a:b].tobytes().decode() for a, b in pairwise(places)]
    named = [None if number == NO_TERM else terms[number] for number in stream.tolist()]
    found = [
        (named[start : start + title], named[start + title : end])
        for start, end, title in zip([0, *ends.tolist()], ends.tolist(), titles.tolist(), strict=False)
    ]
    return found[1:]


@given(st.text(st.sampled_from("aZ09 ?!()\"/-'._:,;\té"), max_size=300))
def test_the_short_way_for_simple_text_gives_the_tokens_of_the_rules(text: str) -> None:
    assert tokenize(text) == tokenize_by_rules(text)
