"""Questions that ask how or why: the sentence or two of a passage that answer them, where no short answer fits.

The reader marks a few words. For such a question it is often not sure of any, and what a person wants is a sentence.
The sentences are chosen by what they share with the question, and by the reader's own place, without further reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import log
from typing import NamedTuple

from orienteer.session.observation import is_stop_word
from orienteer.session.state import SeenPassage, Session

_SURE = log(0.5)  # a reader that gives its words this log probability has found a short answer
_ASKS = re.compile(r"^\W*(why|how)\b(?!\s+(many|much|long|old|tall|far|high|big|large|often|deep|fast|heavy)\b)", re.I)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")
_SHORT = 5  # letters before an end that is none: "Dr.", "No."
_WORD = re.compile(r"\w+")
_LONGEST = 60  # words of two sentences together


class Span(NamedTuple):
    """`text[start:end]` of a passage."""

    start: int
    end: int


def asks_for_sentences(question: str) -> bool:
    """Whether the question asks how or why, and not for a number."""
    return _ASKS.search(question) is not None


def answer_sentences(session: Session) -> Span | None:
    """The sentences of the best passage that answer the question; None where its short answer does."""
    if not session.best or not asks_for_sentences(session.question.question):
        return None
    top = session.best[0]
    return best_sentences(session.question.question, top) if top.reading.span < _SURE else None


def explanation_of(session: Session) -> str:
    """The text of `answer_sentences`; empty where there are none."""
    found = answer_sentences(session)
    return session.best[0].passage.text[found.start : found.end] if found else ""


def best_sentences(question: str, seen: SeenPassage) -> Span:
    """The best sentence, and a neighbour where it adds words of the question.

    A sentence is worth the share of the question's words that it has, and half as much again where the reader's words
    stand in it; the earlier one of equals.
    """
    text, reading = seen.passage.text, seen.reading
    spans = sentences(text)
    asked = {word for word in _stems(question) if not is_stop_word(word)}
    shared = [asked & set(_stems(text[start:end])) for start, end in spans]
    read = [start <= reading.start < end and reading.end > reading.start for start, end in spans]
    worth = [len(words) / max(1, len(asked)) + 0.5 * here for words, here in zip(shared, read, strict=True)]
    best = max(range(len(spans)), key=lambda i: (worth[i], -i))
    added, pair = 0, spans[best]
    for other in (best + 1, best - 1):
        if 0 <= other < len(spans) and (more := len(shared[other] - shared[best])) > added:
            added, pair = more, Span(spans[min(best, other)].start, spans[max(best, other)].end)
    return pair if added and len(text[pair.start : pair.end].split()) <= _LONGEST else spans[best]


def sentences(text: str) -> list[Span]:
    """The sentences of a text, at least one; a mark after a short word or an initial ends none."""
    cuts, start = [], 0
    for mark in _END.finditer(text):
        last = text[start : mark.start()].split()[-1:] or [""]
        if len(last[0]) < _SHORT and last[0][:1].isupper() and last[0].endswith("."):
            continue
        cuts.append(Span(start, mark.start()))
        start = mark.end()
    return [*cuts, Span(start, len(text))]


def _stems(text: str) -> Iterable[str]:
    """Words without the endings of number and tense: what is enough to see that two are one word."""
    for word in _WORD.findall(text.lower()):
        yield re.sub(r"(?<=\w{4})(ing|ed|es|s)$", "", word)
