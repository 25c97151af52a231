"""Snippets: the words around the reader's answer, as an agent sees them."""

from __future__ import annotations

import re

_WORD = re.compile(r"\S+")


def snippet(text: str, start: int, end: int, words: int) -> str:
    """At most `words` white-space words of the text, centred on the answer text[start:end].

    The words that hold the answer come first; what is left goes half to either side, and what one side cannot
    use to the other. An answer longer than `words` is cut at its end. Without an answer: the first words.
    """
    if words <= 0:
        return ""
    places = [match.span() for match in _WORD.finditer(text)]
    touched = [i for i, (low, high) in enumerate(places) if low < end and high > start]
    first, last = (touched[0], touched[-1] + 1) if touched else (0, 0)
    last = min(last, first + words)
    spare = words - (last - first)
    before, after = first, len(places) - last
    left = min(before, max(spare // 2, spare - after))
    right = min(after, spare - left)
    return " ".join(text[low:high] for low, high in places[first - left : last + right])
