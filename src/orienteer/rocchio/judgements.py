"""Relevance, possible exact answers and readings of the passages that one question's candidates find.

All sessions of the question share them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage, Question
from orienteer.reader.answer_matching import exact_match, normalise
from orienteer.reader.protocol import Reading
from orienteer.session.relevance import gain_by_id, is_relevant
from orienteer.session.settings import Relevance

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Slots = NDArray[np.int64]


class Judgements:
    """Arrays by slot, a passage's number in order of appearance: relevance, and once it is read PS and EM.

    relevant   rel(d) as its gain in NDCG, from the text alone or from the question's judgements
    possible   some span of the text could be an exact answer; where not, EM is 0 without reading
    score      PS, once read
    exact      em(d), once read
    """

    def __init__(self, question: Question, relevance: Relevance = "tokens") -> None:
        self.question = question
        self.ids: list[str] = []
        self._slot: dict[str, int] = {}
        self._relevance = relevance
        self._spans = AnswerSpans(question.answers)
        self._judged = 0
        self.relevant: Floats = np.zeros(0, np.float64)
        self.possible: Bools = np.zeros(0, np.bool_)
        self.read: Bools = np.zeros(0, np.bool_)
        self.exact: Bools = np.zeros(0, np.bool_)
        self.score: Floats = np.zeros(0, np.float64)

    def __len__(self) -> int:
        return len(self.ids)

    def slots(self, ids: Iterable[str]) -> list[int]:
        """The slots of passages; new ones get one, and are judged by the next `judge`."""
        slots = []
        for id in ids:
            slot = self._slot.setdefault(id, len(self.ids))
            if slot == len(self.ids):
                self.ids.append(id)
            slots.append(slot)
        return slots

    def unjudged(self) -> list[str]:
        return self.ids[self._judged :]

    def judge(self, passages: Sequence[Passage]) -> None:
        """Judges the texts of `unjudged`, in their order."""
        relevant = np.array([self._gain(passage) for passage in passages], np.float64)
        possible = np.array([self._spans.possible_in(passage.text) for passage in passages], np.bool_)
        nothing = np.zeros(len(passages), np.bool_)
        self.relevant = np.concatenate([self.relevant, relevant])
        self.possible = np.concatenate([self.possible, possible])
        self.read = np.concatenate([self.read, nothing])
        self.exact = np.concatenate([self.exact, nothing])
        self.score = np.concatenate([self.score, np.zeros(len(passages))])
        self._judged = len(self.relevant)

    def _gain(self, passage: Passage) -> float:
        relevant = is_relevant(self.question, passage, self._relevance)
        return gain_by_id(self.question, passage.id, bool(relevant))

    def keep(self, slots: Sequence[int], readings: Sequence[Reading]) -> None:
        for slot, reading in zip(slots, readings, strict=True):
            self.read[slot] = True
            self.score[slot] = reading.score
            self.exact[slot] = exact_match(reading.answer, self.question.answers)


class AnswerSpans:
    """Whether a text has a span, any span, that equals a gold answer once both are normalised.

    A span may begin and end inside a word, so the test is on letters: a gold answer without its blanks must be in
    the text without its blanks. Normalising the text removes the very articles that normalising a span inside it
    removes, but for an article that the span cuts in two ("t-he" read from "he"); an answer that could be such a
    piece is taken to be possible everywhere.
    """

    _PIECE_FIRST, _PIECE_LAST = re.compile(r"(n|e|he|h)\b"), re.compile(r"\b(t|th|h)$")

    def __init__(self, answers: Sequence[str]) -> None:
        golds = [gold for answer in answers if (gold := normalise(answer))]
        self._anywhere = any(self._PIECE_FIRST.match(gold) or self._PIECE_LAST.search(gold) for gold in golds)
        self._letters = tuple({_letters(gold) for gold in golds})

    def possible_in(self, text: str) -> bool:
        if self._anywhere:
            return True
        letters = _letters(normalise(text))
        return any(gold in letters for gold in self._letters)


def _letters(normal: str) -> str:
    """Without blanks; the final sigma, whose lower case depends on what follows, as any sigma."""
    return normal.replace(" ", "").replace("ς", "σ")
