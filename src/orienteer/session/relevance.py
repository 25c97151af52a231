"""Relevance of passages for a question: by its judgements where there are any, else by the answers in their texts.

Judgements have grades, and tell how many relevant passages there are: NDCG is then TREC's, with its ideal the
passages judged best. `gains` gives it in the paper's form, so that Σ w_i gain(d_i) is NDCG either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import log2

from orienteer.data.passage import Passage, Question
from orienteer.reader.answer_matching import holds_answer, holds_answer_loosely, holds_answer_or_possessive
from orienteer.session.score import K, Score, score
from orienteer.session.settings import Relevance, Settings
from orienteer.session.state import SeenPassage

_RULES: dict[Relevance, Callable[[str, Sequence[str]], bool]] = {
    "tokens": holds_answer,
    "possessives": holds_answer_or_possessive,
    "substring": holds_answer_loosely,
}


def is_relevant(question: Question, passage: Passage, relevance: Relevance = "tokens") -> bool | None:
    """rel(d | q); None where neither judgements nor answers are known."""
    if question.judgements:
        return passage.id in _judged_gains(question.judgements)
    if not question.answers:
        return None
    return _RULES[relevance](passage.text, question.answers)


def gain_by_id(question: Question, passage_id: str, relevant: bool) -> float:
    """What the passage adds to NDCG at weight 1: by its grade, or 1 where it is relevant by an answer."""
    return _judged_gains(question.judgements).get(passage_id, 0.0) if question.judgements else float(relevant)


def gains(question: Question, seen: Sequence[SeenPassage]) -> list[float]:
    return [gain_by_id(question, each.passage.id, bool(each.relevant)) for each in seen]


def ndcem_weight(question: Question, lambda2: float) -> float:
    """λ2 for this question: 0 where no answer is known, so that NDCEM's share goes to NDCG."""
    return lambda2 if question.answers else 0.0


def score_of(question: Question, best: Sequence[SeenPassage], settings: Settings) -> Score | None:
    """S of a session's best passages; None where neither judgements nor answers are known."""
    if not question.is_judged:
        return None
    return score(
        [each.reading.score for each in best],
        gains(question, best),
        [bool(each.exact) for each in best] if question.answers else None,
        lambda1=settings.lambda1,
        lambda2=settings.lambda2,
    )


@lru_cache(maxsize=1 << 10)
def _judged_gains(judgements: tuple[tuple[str, int], ...]) -> dict[str, float]:
    """Of the relevant passages: grade · Σ_j log2(j + 1)^-1 / IDCG, over the first k ranks."""
    grades = {passage: grade for passage, grade in judgements if grade > 0}
    best = sorted(grades.values(), reverse=True)[:K]
    ideal = sum(grade / log2(rank + 1) for rank, grade in enumerate(best, 1))
    full = sum(1 / log2(rank + 1) for rank in range(1, K + 1))
    return {passage: grade * full / ideal for passage, grade in grades.items()}
