"""Text to index terms: Lucene's StandardAnalyzer with its 33 English stop words."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.tokenizer_rules import CLASSES, START, compile_rules

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such "
    "that the their then there these they this to was will with".split()
)
MAX_TOKEN_UNITS = 255  # in UTF-16 code units, where Lucene cuts a token

TRANSITIONS, ACCEPTS = compile_rules()  # uint8 [states, classes], bool [states]


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    with (files("orienteer.engine.embedded") / "unicode_12_1.npz").open("rb") as file, np.load(file) as table:
        runs = np.diff(table["starts"].astype(np.int64), append=0x110000)
        classes = np.repeat(table["classes"], runs)
        lower = np.arange(0x110000, dtype=np.uint32)
        lower[table["lower"][:, 0]] = table["lower"][:, 1]
    return classes, lower


CLASS_OF, LOWER = _tables()  # uint8 [code points], uint32 [code points]

# Bytes of text in which a token is a run of letters and digits: lower case, a blank, or 0 where the rules have a say.
_SIMPLE = bytes(
    byte if 48 <= byte <= 57 or 97 <= byte <= 122
    else byte + 32 if 65 <= byte <= 90
    else 32 if byte < 128 and CLASS_OF[byte] == CLASSES.index("other")
    else 0
    for byte in range(256)
)  # fmt: skip

_STEP = [row.tolist() for row in TRANSITIONS]
_ACCEPTS = ACCEPTS.tolist()
_OTHER = CLASSES.index("other")


def analyze_terms(text: str) -> list[str | None]:
    """The index terms of a text by position; None where a stop word was removed."""
    return [None if token in STOP_WORDS else token for token in tokenize(text)]


def analyze(text: str) -> list[str]:
    """The index terms of a text, stop words removed."""
    return [token for token in tokenize(text) if token not in STOP_WORDS]


def tokenize(text: str) -> list[str]:
    """The lower-cased tokens of a text, stop words included."""
    if len(text) <= MAX_TOKEN_UNITS and text.isascii():
        simple = text.encode().translate(_SIMPLE)
        if 0 not in simple:
            return simple.decode().split()
    return tokenize_by_rules(text)


def tokenize_by_rules(text: str) -> list[str]:
    """`tokenize` by the automata alone."""
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    classes = CLASS_OF[codes].tobytes()
    lowered = text.lower() if text.isascii() else LOWER[codes].tobytes().decode("utf-32-le")
    tokens = []
    at, size = 0, len(classes)
    while at < size:
        if classes[at] == _OTHER:
            at += 1
            continue
        state, here, end, units = START, at, at, 0
        while here < size:
            units += 1 + (lowered[here] > "\uffff")
            state = _STEP[state][classes[here]]
            if not state or units > MAX_TOKEN_UNITS:
                break
            here += 1
            if _ACCEPTS[state]:
                end = here
        if end > at:
            tokens.append(lowered[at:end])
        at = max(end, at + 1)
    return tokens
