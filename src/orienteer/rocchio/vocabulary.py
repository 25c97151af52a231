"""The dictionaries of a step and the refinements that are tried with them, in a fixed order.

The order decides ties: of refinements with equal scores the first is taken. Operators come as in Algorithm 1:
+, -, ^0.1, ^2, ^4, ^6, ^8, the plain term; within an operator, terms by idf in their field, rarest first; terms of
equal idf as they appear in the observation: in the question, then passage by passage in title, answer, snippet, and
a word that is first met in a title as `title` before `contents`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError
from orienteer.query import BOOSTS, Field, Grammar, Operator, Query, Refinement
from orienteer.query.refinement import MAX_TERM_CHARS
from orienteer.reader.answer_matching import match_form
from orienteer.session import Lexicon, SeenPassage, Session, Settings, Step, best_of
from orienteer.session.observation import Observation, Source, observe


def ideal_queries(question: Question, lexicon: Lexicon) -> list[Query]:
    """q_* = q +(contents:"a"), one for each distinct normalised answer.

    An answer without an index term (stop words, signs) would require nothing, one that is too long for a term cannot
    be searched: neither makes a query.
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


_ORDER = (Operator("+"), Operator("-"), *(Operator("^", boost) for boost in BOOSTS), Operator("or"))


@dataclass(frozen=True, slots=True)
class Word:
    """An element of Σ: a term and the field in which it was found; equal whatever the places."""

    field: Field
    term: str


@dataclass(frozen=True, slots=True)
class Sigma:
    """Σ_t: words by idf, rarest first, and where in the observation each appears."""

    words: tuple[Word, ...]
    sources: dict[Word, tuple[Source, ...]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A refinement that a step may choose, and where its term appears."""

    refinement: Refinement
    sources: tuple[Source, ...]


class Vocabulary:
    """An engine's idf by field, cached, and the dictionaries made with it."""

    def __init__(self, engine: Engine, size: int = 1 << 16) -> None:
        self._idf: Callable[[Field, str], float] = lru_cache(size)(engine.idf)

    def sigma(self, observation: Observation, n: int) -> Sigma:
        """The n rarest words of an observation: of the title as `title`, of all else as `contents`."""
        sources: dict[Word, tuple[Source, ...]] = {}
        for term in observation.terms:
            if len(term.text) > MAX_TERM_CHARS:
                continue
            elsewhere = tuple(source for source in ("question", "answer", "snippet") if source in term.sources)
            if "title" in term.sources:
                sources[Word("title", term.text)] = ("title",)
            if elsewhere:
                sources[Word("contents", term.text)] = elsewhere
        ranked = sorted(sources, key=lambda word: -self._idf(word.field, word.term))[:n]
        return Sigma(tuple(ranked), {word: sources[word] for word in ranked})


def split(sigma: Sigma, ideal: Collection[Word]) -> tuple[list[Word], list[Word]]:
    """Σ↑ = Σ_t ∩ Σ_* and Σ↓ = Σ_t - Σ_*, each in Σ_t's order (`eq:dictionaries`)."""
    up = [word for word in sigma.words if word in ideal]
    return up, [word for word in sigma.words if word not in ideal]


def candidates(sigma: Sigma, ideal: Collection[Word], grammar: Grammar, m: int) -> list[Candidate]:
    """What a step tries: `-` with words of Σ↓, every other operator with words of Σ↑, at most m an operator.

    The plain term has no field: a word found in a title is tried as it stands, once, wherever it was found.
    """
    up, down = split(sigma, ideal)
    tried: list[Candidate] = []
    for operator in _ORDER:
        if operator in grammar.operators:
            tried += _tries(operator, down if operator.op == "-" else up, sigma, m)
    return tried


def _tries(operator: Operator, words: Sequence[Word], sigma: Sigma, m: int) -> list[Candidate]:
    tries: dict[Word, tuple[Source, ...]] = {}
    for word in words:
        field: Field = word.field if word.field in operator.fields else "contents"
        where = Word(field, word.term)
        tries[where] = (*tries.get(where, ()), *sigma.sources[word])
    return [
        Candidate(operator.apply(word.field, word.term), sources) for word, sources in list(tries.items())[:m]
    ]  # fmt: skip
