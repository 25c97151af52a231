"""When two answers are the same, and when a text holds an answer."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_PUNCTUATION = string.punctuation.encode()
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Every dash but the ASCII hyphen, which SQuAD's rule deletes: "1939–1945" is two tokens, "a-team" is one.
_DASHES = re.compile(
    f"[{''.join(c for c in map(chr, [*range(0x80, 0x10000), 0x10EAD]) if unicodedata.category(c) == 'Pd')}\u2212]"
)

# Quotation marks and apostrophes other than ASCII's, which SQuAD's rule deletes.
_MARKS = [*(c for c in map(chr, range(0x80, 0x10000)) if unicodedata.category(c) in ("Pi", "Pf")), "\u201a", "\u201e"]
_QUOTES = re.compile(f"[{''.join(_MARKS)}]")
_POSSESSIVE = re.compile(r"'s\b", re.IGNORECASE)
_MARKED = "\0s"  # the end of a possessive, unlike any word's


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case, no ASCII punctuation, no articles, single blanks."""
    return _without_articles(_letters(text))


def _letters(text: str) -> str:
    # As bytes, four times as fast: no byte of a character beyond ASCII is that of a punctuation mark.
    return text.lower().encode("utf-8", "surrogatepass").translate(None, _PUNCTUATION).decode("utf-8", "surrogatepass")


def _without_articles(letters: str) -> str:
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """EM: the answer equals one of the gold answers once both are normalised."""
    found = normalise(answer)
    return any(found == normalise(gold) for gold in golds)


def f1(answer: str, golds: Iterable[str]) -> float:
    """SQuAD's token F1, the best over the gold answers."""
    found = normalise(answer).split()
    return max((_token_f1(found, normalise(gold).split()) for gold in golds), default=0.0)


def _token_f1(found: Sequence[str], gold: Sequence[str]) -> float:
    if not found or not gold:
        return float(found == gold)
    shared = sum((Counter(found) & Counter(gold)).values())
    return 2 * shared / (len(found) + len(gold))


def match_form(text: str) -> str:
    """What relevance compares: the normal form with Unicode dashes as blanks, a blank at either end."""
    return f" {_without_articles(_undashed_letters(text))} "


def _undashed_letters(text: str) -> str:
    return _letters(text if text.isascii() else _DASHES.sub(" ", text))


@lru_cache(maxsize=1 << 14)
def answer_forms(answers: tuple[str, ...]) -> tuple[str, ...]:
    """The distinct match forms of gold answers; an answer that normalises to nothing is dropped."""
    forms = dict.fromkeys(match_form(answer) for answer in answers)
    return tuple(form for form in forms if form.strip())


@lru_cache(maxsize=1 << 14)
def _longest_tokens(answers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(max(form.split(), key=len) for form in answer_forms(answers))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """rel(d): the tokens of a gold answer occur, whole and in order, in the text."""
    golds = tuple(answers)
    letters = _undashed_letters(text)
    if not any(token in letters for token in _longest_tokens(golds)):
        return False  # most texts end here, before the dear search for articles
    form = f" {_without_articles(letters)} "
    return any(answer in form for answer in answer_forms(golds))


def holds_answer_or_possessive(text: str, answers: Sequence[str]) -> bool:
    """As `holds_answer`, but the last token of an answer may be a possessive, and typographic quotation marks go.

    "Gustave Eiffel's company" holds "Gustave Eiffel".
    """
    text, golds = _with_ascii_quotes(text), tuple(map(_with_ascii_quotes, answers))
    if holds_answer(text, golds):
        return True
    if _POSSESSIVE.search(text) is None:
        return False
    marked = _possessive_form(text)
    return any(f"{_possessive_form(gold).rstrip()}{_MARKED} " in marked for gold in golds if match_form(gold).strip())


def _with_ascii_quotes(text: str) -> str:
    return text if text.isascii() else _QUOTES.sub("'", text)


def _possessive_form(text: str) -> str:
    """The match form with the end of each possessive marked: "Eiffel's" is `eiffel\\0s`."""
    return match_form(_POSSESSIVE.sub(_MARKED, text))


def holds_answer_loosely(text: str, answers: Sequence[str]) -> bool:
    """The looser test of the paper's code: a substring will do, "son" is in "persons"."""
    form = normalise(text)
    return any((gold := normalise(answer)) and gold in form for answer in answers)
