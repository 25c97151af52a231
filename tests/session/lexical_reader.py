"""A stand-in reader for tests only: it counts words and reads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log

from orienteer.data.passage import Passage
from orienteer.reader.protocol import Reading

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\W\d_a-z]\w*(?: [^\W\d_a-z]\w*)*|\d+")


class LexicalReader:
    """PS is the share of the question's words in the passage; the answer is its first name or number that is new."""

    def __init__(self, name: str = "lexical stand-in") -> None:
        self.fingerprint = name
        self.batches: list[int] = []

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self.batches.append(sum(len(passages) for _, passages in batch))
        return [[_reading(question, passage) for passage in passages] for question, passages in batch]


def _reading(question: str, passage: Passage) -> Reading:
    asked = {word.lower() for word in _WORD.findall(question)}
    have = {word.lower() for word in _WORD.findall(passage.contents)}
    score = (1 + len(asked & have)) / (2 + len(asked))
    names = (match.span() for match in _NAME.finditer(passage.text))
    start, end = next((s for s in names if not asked & set(passage.text[s[0] : s[1]].lower().split())), (0, 0))
    return Reading(score, log(score / (1 - score)), passage.text[start:end], start, end)
