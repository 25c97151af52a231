"""The ideal query: the question among the passages that hold the answer, and the words it brings up (Σ_*)."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.data.passage import Question
from orienteer.errors import QueryError
from orienteer.query import Query, Refinement
from orienteer.reader.answer_matching import match_form
from orienteer.session import Lexicon, Observation, SeenPassage, Session, Settings, Step, best_of
from orienteer.session.observation import observe


def ideal_queries(question: Question, lexicon: Lexicon) -> list[Query]:
    """q_* = q +(contents:"a"), one for each distinct normalised answer.

    An answer without an index term (stop words, signs) would require nothing, one that is too long for a term cannot
    be asked: neither makes a query.
    """
    queries: dict[str, Query] = {}
    for answer in question.answers:
        form = match_form(answer)
        if form in queries or not lexicon.terms(answer):
            continue
        try:
            queries[form] = Query(question.question).refine(Refinement("+", "contents", answer))
        except QueryError:
            continue
    return list(queries.values())


def ideal_observation(
    question: Question, seen: Sequence[SeenPassage], settings: Settings, lexicon: Lexicon
) -> Observation:
    """o_*: what an agent would see of the best five by PS of all that the ideal queries found."""
    best = best_of(seen)
    step = Step(0, None, Query(question.question), (), tuple(each.passage.id for each in best), (), (), None)
    return observe(Session(question, (step,), tuple(seen), best), settings, lexicon)
