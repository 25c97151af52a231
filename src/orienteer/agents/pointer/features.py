"""What is known of a term and of a moment without any encoder: rarity, counts, PS of the passages that hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.passage_terms import passage_terms
from orienteer.agents.pointer.rendering import SOURCES
from orienteer.engine.protocol import Engine
from orienteer.session import Lexicon, Observation, Term
from orienteer.session.score import K

_IDF, _LETTERS = 12.0, 10.0  # scales that bring values to about 1
# Rocchio's sessions are short, an agent's are not: beyond these counts a moment looks as those that were learned from.
_STEPS, _MANY = 10, 5

TERM_FEATURES = (
    "idf in contents", "idf in title",
    "in question", "in a title", "in an answer", "in a snippet",
    "times in question", "times in titles", "times in answers", "times in snippets",
    "passages with it", "titles with it", "best PS with it", "mean PS with it", "PS with it of all PS",
    *(f"in passage {n + 1}" for n in range(K)),
    *(f"in answer {n + 1}" for n in range(K)),
    "hits with it", "hits with it in the title", "a number", "letters",
)  # fmt: skip

MOMENT_FEATURES = (
    *(f"PS {n + 1}" for n in range(K)),
    "passages", "titles", "passages with the commonest answer", "PS of all answers equal to the first",
    "step", "steps left", "plain terms", "required", "excluded", "boosted", "without effect", "usable terms",
)  # fmt: skip


class Features:
    """The features of observations; an engine gives idf by field and the terms of whole passages."""

    def __init__(self, engine: Engine, lexicon: Lexicon) -> None:
        self._lexicon, self._whole = lexicon, passage_terms(engine)
        self._title_idf: Callable[[str], float] = lru_cache(1 << 16)(lambda term: engine.idf("title", term))

    def of_terms(self, observation: Observation, terms: Sequence[Term]) -> NDArray[np.float32]:
        """[terms, features]"""
        table = np.zeros((len(terms), len(TERM_FEATURES)), np.float32)
        if not terms:
            return table
        passages, hits = observation.passages[:K], observation.hits[:K]
        number = {term.text: place for place, term in enumerate(terms)}

        def counts(texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, terms]
            return _counts([self._lexicon.terms(text) for text in texts], number)

        titles, answers, snippets = (
            counts([getattr(each, part) for each in passages]) for part in ("title", "answer", "snippet")
        )
        held = (titles > 0) | (snippets > 0)
        scores = np.array([each.score for each in passages], np.float32).reshape(-1, 1)
        ps = np.where(held, scores, np.float32(0))
        table[:, 0] = [term.idf / _IDF for term in terms]
        table[:, 1] = [self._title_idf(term.text) / _IDF if "title" in term.sources else 0.0 for term in terms]
        table[:, 2:6] = [[source in term.sources for source in SOURCES] for term in terms]
        table[:, 6] = np.log1p(counts([observation.question])[0])
        for column, found in zip((7, 8, 9), (titles, answers, snippets), strict=True):
            table[:, column] = np.log1p(found.sum(0))
        table[:, 10] = held.sum(0) / K
        table[:, 11] = (titles > 0).sum(0) / K
        table[:, 12] = ps.max(0, initial=0.0)
        table[:, 13] = ps.sum(0) / np.maximum(1, held.sum(0))
        table[:, 14] = ps.sum(0) / (scores.sum() or 1.0)
        table[:, 15 : 15 + len(passages)] = held.T
        table[:, 20 : 20 + len(passages)] = (answers > 0).T
        table[:, 25] = (_counts([self._whole.counts(hit) for hit in hits], number) > 0).sum(0) / K
        table[:, 26] = (counts([hit.title for hit in hits]) > 0).sum(0) / K
        table[:, 27] = [any(map(str.isdigit, term.text)) for term in terms]
        table[:, 28] = [len(term.text) / _LETTERS for term in terms]
        return table

    def of_moment(self, observation: Observation, terms: Sequence[Term]) -> NDArray[np.float32]:
        """[features]"""
        passages = observation.passages[:K]
        scores = [each.score for each in passages]
        said = [" ".join(self._lexicon.terms(each.answer)) for each in passages]
        kinds = Counter(refinement.op for refinement in observation.refinements)
        without = len(observation.used) - len(observation.refinements)
        return np.array(
            [
                *scores, *[0.0] * (K - len(scores)),
                len(passages) / K, len({each.title for each in passages}) / K,
                max(Counter(said).values(), default=0) / K,
                sum(score for score, answer in zip(scores, said, strict=True) if answer == said[0]) / K,
                min(observation.step, _STEPS) / _STEPS, min(observation.steps_left, _STEPS) / _STEPS,
                *(min(kinds[op], _MANY) / _MANY for op in ("or", "+", "-", "^")),
                min(without, _MANY) / _MANY, len(terms) / 100,
            ],
            np.float32,
        )  # fmt: skip


def _counts(texts: Sequence[Iterable[str]], number: Mapping[str, int]) -> NDArray[np.float32]:
    """How often each numbered term stands in each text [texts, terms]."""
    table = np.zeros((len(texts), len(number)), np.float32)
    for row, words in zip(table, texts, strict=True):
        for word in words:
            place = number.get(word)
            if place is not None:
                row[place] += 1
    return table
