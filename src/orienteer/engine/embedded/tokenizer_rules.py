"""Lucene's StandardTokenizer as data: character classes, and two automata whose longest match is a token.

The word automaton is Unicode's word-break rules as Lucene reads them (UAX #29: words, numbers, katakana, runs
of South-East Asian script, single ideographs); the emoji automaton its emoji sequences (UTS #51). A token is the
longest match of either. Both were checked against Lucene 9.9.1 on every code point and on random sequences.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

CLASSES = (
    "other", "letter", "letter_pictographic", "hebrew", "digit", "katakana",
    "mid_letter", "mid_digit", "mid_both", "quote", "double_quote", "joiner",
    "ideograph", "complex", "complex_mark", "mark", "zwj", "text_style", "emoji_style",
    "keycap", "modifier", "tag", "tag_end", "keycap_base", "pictographic", "regional",
)  # fmt: skip

_MARKS = "mark complex_mark zwj text_style emoji_style keycap modifier tag tag_end"
_EMOJI_MARKS = "mark complex_mark keycap modifier tag tag_end"
_LETTERS = "letter letter_pictographic"

# state -> {classes: next state}; a state whose name ends in * accepts.
_WORD: dict[str, dict[str, str]] = {
    "start": {
        "joiner": "joined", "katakana": "katakana*", "complex complex_mark": "complex*", "ideograph": "single*",
        _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*",
    },
    "joined": {
        "joiner": "joined", "katakana": "katakana*",
        _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*", _MARKS: "joined",
    },
    "letters*": {
        "mid_letter mid_both quote": "letters-mid", "joiner": "trailing*",
        _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*", _MARKS: "letters*",
    },
    "letters-mid": {_LETTERS: "letters*", "hebrew": "letters*", _MARKS: "letters-mid"},
    "hebrew*": {
        "mid_letter mid_both": "letters-mid", "quote": "hebrew-quote*", "double_quote": "hebrew-double",
        "joiner": "trailing*", _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*", _MARKS: "hebrew*",
    },
    "hebrew-quote*": {
        "joiner": "trailing*", _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*",
        _MARKS: "hebrew-quote*",
    },
    "hebrew-double": {"hebrew": "hebrew-quote*", _MARKS: "hebrew-double"},
    "digits*": {
        "mid_digit mid_both quote": "digits-mid", "joiner": "trailing*",
        _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*", _MARKS: "digits*",
    },
    "digits-mid": {"digit": "digits*", _MARKS: "digits-mid"},
    "katakana*": {"katakana": "katakana*", "joiner": "trailing*", _MARKS: "katakana*"},
    "trailing*": {
        "joiner": "trailing*", "katakana": "katakana*",
        _LETTERS: "letters*", "hebrew": "hebrew*", "digit": "digits*", _MARKS: "trailing*",
    },
    "complex*": {"complex": "complex*", _MARKS: "complex*"},
    "single*": {_MARKS: "single*"},
}  # fmt: skip

_PICTURES = "pictographic letter_pictographic"
_EMOJI: dict[str, dict[str, str]] = {
    "start": {"zwj": "zwj", _PICTURES: "picture*", "modifier": "modifier*", "keycap_base": "base", "regional": "half"},
    "zwj": {"zwj": "zwj", _PICTURES: "picture*"},
    "picture*": {_EMOJI_MARKS: "picture*", "zwj": "picture-zwj*", "emoji_style": "styled*"},
    "picture-zwj*": {
        _PICTURES: "picture*", "zwj": "picture-zwj*", _EMOJI_MARKS: "picture*", "emoji_style": "styled*",
    },
    "styled*": {"zwj": "styled-zwj", "tag": "tagged"},
    "styled-zwj": {"zwj": "styled-zwjs", _PICTURES: "picture*", "modifier": "modifier*"},
    "styled-zwjs": {"zwj": "styled-zwjs", _PICTURES: "picture*"},
    "tagged": {"tag": "tagged", "tag_end": "tag-end*"},
    "tag-end*": {},
    "modifier*": {_EMOJI_MARKS: "modifier*", "zwj": "modifier-zwj*"},
    "modifier-zwj*": {_PICTURES: "picture*", "zwj": "modifier-zwj*", _EMOJI_MARKS: "modifier*"},
    "base": {"keycap": "keycap*", "emoji_style": "base-styled", "mark complex_mark zwj modifier tag tag_end": "base"},
    "base-styled": {"keycap": "keycap-styled*"},
    "keycap*": {_EMOJI_MARKS: "keycap*", "zwj": "keycap*", "emoji_style": "base-styled"},
    "keycap-styled*": {_EMOJI_MARKS: "keycap-styled*", "zwj": "keycap-styled*"},
    "half": {_MARKS: "half", "regional": "flag*"},
    "flag*": {_MARKS: "flag*"},
}  # fmt: skip

DEAD, START = 0, 1


def compile_rules() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The product of both automata: next state [state, class] and whether a state accepts.

    State 0 is dead, state 1 the start.
    """
    word, emoji = _flatten(_WORD), _flatten(_EMOJI)
    number = {("", ""): DEAD, ("start", "start"): START}
    todo = [("start", "start")]
    rows: dict[int, list[int]] = {DEAD: [DEAD] * len(CLASSES)}
    while todo:
        left, right = pair = todo.pop()
        row = []
        for name in CLASSES:
            after = (word.get((left, name), ""), emoji.get((right, name), ""))
            if after not in number:
                number[after] = len(number)
                todo.append(after)
            row.append(number[after])
        rows[number[pair]] = row
    transitions = np.array([rows[state] for state in range(len(number))], np.uint8)
    accepts = np.array(["*" in left + right for left, right in number], np.bool_)
    return transitions, accepts


def _flatten(rules: dict[str, dict[str, str]]) -> dict[tuple[str, str], str]:
    def each() -> Iterable[tuple[tuple[str, str], str]]:
        for state, moves in rules.items():
            for classes, after in moves.items():
                for name in classes.split():
                    yield (state, name), after

    flat: dict[tuple[str, str], str] = {}
    for key, after in each():
        flat.setdefault(key, after)
    return flat
