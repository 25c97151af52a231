"""What refinements would find, before one is taken: looking at a list of hits is free, reading them is not.

The engine answers the likeliest refinements in one pass. A refinement whose hits are all known cannot raise the score;
of the others, the words of their hits tell which are worth reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.passage_terms import passage_terms
from orienteer.agents.pointer.decoding import Choices
from orienteer.agents.pointer.rendering import SOURCES
from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError
from orienteer.query import Query, Refinement
from orienteer.session import Lexicon, Observation, Term
from orienteer.session.score import K
from orienteer.session.stop_words import is_stop_word

HIT_FEATURES = (
    "share of the question", "share of the question, saturated", "share of the question in the title",
    *(f"holds answer {n + 1}" for n in range(K)),
    "best PS whose answer it holds", "PS of the answers it holds", "best PS with its title",
    "share of the refinements in force", "length",
    "times the term", "likelihood of what finds it", "rank",
)  # fmt: skip

CANDIDATE_FEATURES = (
    "log-probability", "log-probability below the best",
    "hits", "new hits", "best passages among the hits", "mean PS of these",
    "plain", "required", "excluded", "boosted down", "boosted up", "title",
    "idf", "in question", "in a title", "in an answer", "in a snippet",
    *(f"PS {n + 1}" for n in range(K)), "step",
)  # fmt: skip

_LOG, _IDF, _LENGTH, _STEPS = 10.0, 12.0, 150.0, 10  # scales that bring values to about 1
_REMEMBERED = 1 << 14


@dataclass(frozen=True, slots=True)
class Preview:
    """Candidates as the second model sees them; only hits not seen before have features.

    of_hits         [candidates, K, hit features]
    new             [candidates, K]
    of_candidates   [candidates, features]
    """

    of_hits: NDArray[np.float32]
    new: NDArray[np.bool_]
    of_candidates: NDArray[np.float32]

    @property
    def hopeful(self) -> NDArray[np.bool_]:
        """Which candidates find something new."""
        return np.asarray(self.new.any(1))


class Previewer:
    """Previews of the likeliest refinements; an engine finds them and knows their words."""

    def __init__(self, engine: Engine, lexicon: Lexicon) -> None:
        self._engine, self._lexicon, self._words = engine, lexicon, passage_terms(engine)
        self._title = lru_cache(_REMEMBERED)(lambda title: Counter(lexicon.terms(title)))

    def __call__(self, observation: Observation, found: Choices, count: int) -> Preview | None:
        """Of the `count` likeliest; None where the engine cannot answer them."""
        count = min(count, len(found))
        tried, logs = [found.refinement(rank) for rank in range(count)], found.log_probabilities[:count]
        try:
            lists = self._engine.refine(Query(observation.question, observation.refinements), tried, K)
        except QueryError:
            return None
        rows = [[hit.id for hit in hits] for hits in lists]
        likelihood: Counter[str] = Counter()
        for ids, probability in zip(rows, np.exp(logs).tolist(), strict=True):
            likelihood.update(dict.fromkeys(ids, probability))
        fresh = [id for id in likelihood if id not in observation.seen]
        passages = dict(zip(fresh, self._engine.passages(fresh), strict=True))
        words = {id: self._words.counts(passage) for id, passage in passages.items()}
        moment = _Moment(observation, self._lexicon)
        alike = {id: self._alone(moment, passage, words[id]) for id, passage in passages.items()}
        total = likelihood.total() or 1.0
        of_hits = np.zeros((count, K, len(HIT_FEATURES)), np.float32)
        new = np.zeros((count, K), np.bool_)
        for place, (refinement, ids) in enumerate(zip(tried, rows, strict=True)):
            for rank, id in enumerate(ids):
                if id in alike:
                    times = np.log1p(words[id].get(refinement.term, 0))
                    of_hits[place, rank] = [*alike[id], times, likelihood[id] / total, (rank + 1) / K]
                    new[place, rank] = True
        terms = {term.text: term for term in found.terms}
        of_candidates = np.zeros((count, len(CANDIDATE_FEATURES)), np.float32)
        for place, (refinement, ids) in enumerate(zip(tried, rows, strict=True)):
            of_candidates[place] = [
                logs[place] / _LOG, (logs[place] - logs[0]) / _LOG,
                *_candidate(moment, terms[refinement.term], refinement, ids),
                *moment.ps, *[0.0] * (K - len(moment.ps)), min(observation.step, _STEPS) / _STEPS,
            ]  # fmt: skip
        return Preview(of_hits, new, of_candidates)

    def _alone(self, moment: _Moment, passage: Passage, words: Mapping[str, int]) -> list[float]:
        """What is to be said of a passage, whatever finds it."""
        title = self._title(passage.title)
        held = [bool(answer) and answer <= words.keys() for answer in moment.answers]
        of_held = [ps for ps, holds in zip(moment.ps, held, strict=True) if holds]
        of_title = [ps for ps, known in zip(moment.ps, moment.titles, strict=True) if known == passage.title]
        return [
            _share(moment.question, words), _share(moment.question, words, saturated=True),
            _share(moment.question, title),
            *held, *[False] * (K - len(held)),
            max(of_held, default=0.0), sum(of_held) / (sum(moment.ps) or 1.0), max(of_title, default=0.0),
            _share(moment.refined, words), sum(words.values()) / _LENGTH,
        ]  # fmt: skip


class _Moment:
    """What all hits of a moment are compared with."""

    def __init__(self, observation: Observation, lexicon: Lexicon) -> None:
        passages = observation.passages[:K]
        asked = (term for term in lexicon.terms(observation.question) if not is_stop_word(term))
        self.question = {term: lexicon.idf(term) for term in asked}
        used = (term for refinement in observation.refinements for term in lexicon.terms(refinement.term))
        self.refined = {term: lexicon.idf(term) for term in used}
        self.answers = [frozenset(lexicon.terms(each.answer)) for each in passages]
        self.titles = [each.title for each in passages]
        self.ps = [each.score for each in passages]
        self.score_of = {each.id: each.score for each in passages}
        self.seen = observation.seen


def _candidate(moment: _Moment, term: Term, refinement: Refinement, ids: Sequence[str]) -> list[float]:
    known = [moment.score_of[id] for id in ids if id in moment.score_of]
    op, boost = refinement.op, refinement.weight
    return [
        len(ids) / K, sum(id not in moment.seen for id in ids) / K, len(known) / K, sum(known) / max(1, len(known)),
        op == "or", op == "+", op == "-", op == "^" and boost < 1, op == "^" and boost > 1,
        refinement.field == "title",
        term.idf / _IDF, *(source in term.sources for source in SOURCES),
    ]  # fmt: skip


def _share(terms: Mapping[str, float], words: Mapping[str, int], saturated: bool = False) -> float:
    """How much of the terms' idf a text has; saturated: a term counts for more the oftener it stands there."""
    found = ((idf, words[term]) for term, idf in terms.items() if term in words)
    return sum(idf * n / (n + 1) if saturated else idf for idf, n in found) / (sum(terms.values()) or 1.0)
