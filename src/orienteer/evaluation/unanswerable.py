"""An index that does not hold the answers: what a search finds once every passage with a gold answer is removed.

Removed for a question are its gold passage, the passages that are judged relevant, and every passage that holds an
answer in its title or its text, also as a possessive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage, Question
from orienteer.engine.hits import distinct_hits
from orienteer.engine.protocol import Engine, Hit, StoresTerms, fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import clean
from orienteer.reader.answer_matching import holds_answer_or_possessive

_FURTHER = 10  # hits asked for beyond k, of which the answers are dropped
_DEEPEST = 1000


class WithoutAnswers:
    """An engine whose hits for a question never hold one of its answers; scores stay those of the whole index.

    A question is known by its text, which every query of its session begins with.
    """

    def __init__(self, engine: Engine, questions: Iterable[Question]) -> None:
        if not isinstance(engine, StoresTerms):
            raise OrienteerError("answers can be removed from an embedded index only")
        self._engine, self._terms = engine, engine
        self._questions = {clean(question.question): question for question in questions}
        self._holds: dict[tuple[str, str], bool] = {}
        self.fingerprint = f"{fingerprint_of(engine)}-answers"

    def search(self, query: Query, k: int) -> list[Hit]:
        depth = k + _FURTHER
        while True:
            hits = list(self._engine.search(query, depth))
            kept = self._without(query.question, hits)
            if len(kept) >= k or len(hits) < depth or depth >= _DEEPEST:
                return kept[:k]
            depth *= 4

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        depth = k + _FURTHER
        lists = self._engine.refine(query, refinements, depth)
        ids, places = distinct_hits(lists, depth)
        self._look(query.question, ids)
        held = np.array([self._holds[query.question, id] for id in ids] + [False], np.bool_)[places]
        kept: list[list[Hit]] = []
        for hits, drop, refinement in zip(lists, held, refinements, strict=True):
            some = [hit for hit, dropped in zip(hits, drop, strict=False) if not dropped]
            short = len(some) < k and len(hits) == depth
            kept.append(self.search(query.refine(refinement), k) if short else some[:k])
        return kept

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return self._engine.passages(ids)

    def idf(self, field: str, term: str) -> float:
        return self._engine.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._engine.analyze(text)

    @property
    def vocabulary_size(self) -> int:
        return self._terms.vocabulary_size

    def term(self, number: int) -> str:
        return self._terms.term(number)

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        return self._terms.term_numbers(terms)

    def passage_terms(self, passage_id: str) -> NDArray[np.int64]:
        return self._terms.passage_terms(passage_id)

    def term_idf(self, number: int) -> float:
        return self._terms.term_idf(number)

    def term_probability(self, number: int) -> float:
        return self._terms.term_probability(number)

    def _without(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        self._look(question, [hit.id for hit in hits])
        return [hit for hit in hits if not self._holds[question, hit.id]]

    def _look(self, question: str, ids: Sequence[str]) -> None:
        """Whether these passages hold an answer, title or text."""
        new = [id for id in ids if (question, id) not in self._holds]
        asked = self._questions.get(question)
        for id, passage in zip(new, self._engine.passages(new), strict=True):
            self._holds[question, id] = asked is not None and _answers(asked, passage)


def _answers(question: Question, passage: Passage) -> bool:
    if passage.id == question.passage_id or question.grades.get(passage.id, 0) > 0:
        return True
    return bool(question.answers) and holds_answer_or_possessive(
        f"{passage.title} . {passage.text}", question.answers
    )  # fmt: skip
