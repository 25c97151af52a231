"""Pseudo-relevance feedback: unlearned agents that add the most telling word of what was just found.

One word a step, always with the same operator (`sect:app-rm3`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from orienteer.agents.passage_terms import PassageTerms, passage_terms
from orienteer.engine.protocol import Engine
from orienteer.query import BOOSTS, Field, Operator
from orienteer.session import STOP, Action, Lexicon, Observation
from orienteer.session.observation import is_stop_word

MU = 2500.0

Choice = Callable[[Observation], str | None]

# The paper's ten operators, by the ending of an agent's name; a boost is of a word in the contents.
OPERATORS: Mapping[str, tuple[Operator, Field]] = {
    "-or": (Operator("or"), "contents"),
    "+c": (Operator("+"), "contents"),
    "+t": (Operator("+"), "title"),
    "-c": (Operator("-"), "contents"),
    "-t": (Operator("-"), "title"),
    **{f"^{f'{boost:g}'.removeprefix('0')}": (Operator("^", boost), "contents") for boost in BOOSTS},
}


class Feedback:
    """Refines with the word that `choose` gives, until there is none."""

    def __init__(self, choose: Choice, operator: Operator, field: Field) -> None:
        self._choose, self._operator, self._field = choose, operator, field

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        words = [self._choose(observation) for observation in observations]
        return [STOP if word is None else self._operator.apply(self._field, word) for word in words]


class ByIdf:
    """The word of the last hits with the highest idf in the operator's field; the first of equals.

    An operator on titles takes its word from the hits' titles: any other word would hardly change what is found.
    """

    def __init__(self, engine: Engine, field: Field = "contents") -> None:
        self._terms, self._lexicon, self._field = passage_terms(engine), Lexicon(engine), field
        self._idf = lru_cache(1 << 16)(lambda word: engine.idf(field, word))

    def __call__(self, observation: Observation) -> str | None:
        counts = [self._terms.counts(passage) for passage in observation.hits]
        words = _candidates(counts, observation, self._lexicon, self._field)
        return max(words, key=self._idf, default=None)


class ByRelevanceModel:
    """RM3's word: the greatest Σ over the last hits d of P(w | d) · Π over q0's terms q of P(q | d).

    P(w | d) = (count in d + μ P(w | C)) / (length of d + μ), Dirichlet's smoothing over the whole passage.
    A term of q0 that the collection does not hold is left out; of equal words the first is taken. An operator on
    titles takes the best word of the hits' titles.
    """

    def __init__(self, engine: Engine, field: Field = "contents", mu: float = MU) -> None:
        self._terms, self._lexicon, self._field, self._mu = passage_terms(engine), Lexicon(engine), field, mu

    def __call__(self, observation: Observation) -> str | None:
        counts = [self._terms.counts(passage) for passage in observation.hits]
        words = _candidates(counts, observation, self._lexicon, self._field)
        if not words:
            return None
        question = [q for q in self._lexicon.terms(observation.question) if self._terms.background(q, counts) > 0]
        return words[int(np.argmax(relevance_model(self._terms, counts, question, words, self._mu)))]


class ByAnswer:
    """A word of the reader's most confident answer not yet used: the rarest of it.

    When every answer is used up, the rarest word of the observation that is not the question's.
    """

    def __init__(self, engine: Engine, field: Field = "contents") -> None:
        self._lexicon = Lexicon(engine)  # an answer's words stand in the contents, whatever the operator's field

    def __call__(self, observation: Observation) -> str | None:
        question = set(self._lexicon.terms(observation.question))
        offered = [term.text for term in observation.terms if term.text not in question]
        for passage in observation.passages:
            answer = set(self._lexicon.terms(passage.answer))
            if words := [word for word in offered if word in answer]:
                return max(words, key=self._lexicon.idf)
        return max(offered, key=self._lexicon.idf, default=None)


def relevance_model(
    terms: PassageTerms, counts: Sequence[Mapping[str, int]], question: Sequence[str], words: Sequence[str], mu: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Each word's weight, up to a factor that all words share."""
    lengths = np.array([sum(count.values()) for count in counts], np.float64)[:, None]  # [D, 1]

    def given_passage(some: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        occurring = np.array([[count.get(word, 0) for word in some] for count in counts], np.float64)  # [D, W]
        common = np.array([terms.background(word, counts) for word in some], np.float64)
        return (occurring.reshape(len(counts), -1) + mu * common) / (lengths + mu)

    likelihood = np.log(given_passage(question)).sum(axis=1, keepdims=True)  # [D, 1]
    # Only ratios matter: the largest likelihood is taken as 1, so that a long question does not vanish.
    weight = np.exp(likelihood - likelihood.max())
    result: np.ndarray[tuple[int], np.dtype[np.float64]] = (weight * given_passage(words)).sum(axis=0)
    return result


def _candidates(
    counts: Iterable[Mapping[str, int]], observation: Observation, lexicon: Lexicon, field: Field
) -> list[str]:
    """Words of the last hits that are neither in the question nor used before nor stop words.

    For an operator on titles those of the hits' titles, as long as there are any.
    """
    known = observation.used.union(lexicon.terms(observation.question))

    def new(texts: Iterable[Iterable[str]]) -> list[str]:
        words = dict.fromkeys(word for text in texts for word in text)
        return [word for word in words if word not in known and not is_stop_word(word)]

    titles = [lexicon.terms(passage.title) for passage in observation.hits] if field == "title" else []
    return new(titles) or new(counts)
