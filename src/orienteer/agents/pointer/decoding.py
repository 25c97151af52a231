"""From scores to an action: the likeliest refinement that is legal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS
from orienteer.agents.pointer.head import Scores
from orienteer.errors import OrienteerError
from orienteer.query import Refinement
from orienteer.query.refinement import MAX_CLAUSES
from orienteer.session import Lexicon, Observation, Term


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a moment's scores become an action.

    stop      where an agent may stop: it does once the probability of stopping is at least this
    look      whether it looks at what the refinements find before it takes one, if it has learned to
    success   what one of five passages holding the answer is worth, where NDCG@5 of 1 is worth 1
    price     what a passage must bring to be worth reading
    back      what a refinement of a refined query must bring; where none does, the last refinement is taken back
    """

    stop: float = 0.5
    look: bool = True
    success: float = 6.0
    price: float = 0.003
    back: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.stop <= 1:
            raise OrienteerError(f"a stop threshold of {self.stop}; expected a probability, 0 to 1")
        if self.success < 0:
            raise OrienteerError(f"a worth of success of {self.success}; expected 0 or more")


@dataclass(frozen=True, slots=True)
class Choices:
    """Every legal refinement of a moment by probability, highest first, and the probability of stopping."""

    terms: tuple[Term, ...]
    places: NDArray[np.int64]  # term · slots + slot
    log_probabilities: NDArray[np.float64]
    stop: float

    def __len__(self) -> int:
        return len(self.places)

    def refinement(self, rank: int) -> Refinement:
        term, slot = divmod(int(self.places[rank]), len(SLOTS))
        return _applied(slot, self.terms[term].text)

    def refinements(self) -> list[Refinement]:
        """All of them, likeliest first."""
        terms, slots = np.divmod(self.places, len(SLOTS))
        return [_applied(slot, self.terms[t].text) for t, slot in zip(terms.tolist(), slots.tolist(), strict=True)]


@lru_cache(1 << 16)  # a session's terms stay, and checking what a refinement may say takes time
def _applied(slot: int, term: str) -> Refinement:
    operator, field = SLOTS[slot]
    return operator.apply(field, term)


def choices(scores: Scores, legal: NDArray[np.bool_], terms: tuple[Term, ...]) -> Choices:
    """The softmax over all legal refinements and stopping; the first of equals first."""
    places = np.flatnonzero(legal)
    logits = np.append(scores.slots.reshape(-1)[places], scores.stop).astype(np.float64)
    logits -= logits.max()
    logs = logits - np.log(np.exp(logits).sum())
    order = np.argsort(-logs[:-1], kind="stable")
    return Choices(terms, places[order], logs[:-1][order], float(np.exp(logs[-1])))


def wants_stop(found: Choices, observation: Observation, decoding: Decoding) -> bool:
    if not len(found):
        return True
    return observation.may_stop and found.stop >= decoding.stop


def has_room(observation: Observation, lexicon: Lexicon) -> bool:
    """Whether the query can take one more clause."""
    words = max(len(observation.question.split()), len(lexicon.terms(observation.question)))
    return words + len(observation.refinements) < MAX_CLAUSES
