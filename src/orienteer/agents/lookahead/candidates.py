"""What lies within sight: every passage that some refinement would find and that was not read yet.

Looking at lists of hits is free, reading them is not: the engine answers all refinements of a moment in one pass, and
the words of a passage tell whether it is worth reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.lookahead.passage_features import FEATURES, PassageFeatures, directions
from orienteer.agents.lookahead.refine_cache import Recall
from orienteer.agents.lookahead.term_table import Words
from orienteer.agents.pointer.decoding import Choices
from orienteer.agents.pointer.linear import Floats
from orienteer.data.passage import Passage
from orienteer.engine.hits import distinct_hits
from orienteer.engine.protocol import Engine, Hit
from orienteer.errors import QueryError
from orienteer.session import Lexicon, Observation
from orienteer.session.score import K

_FIRST_ANSWER = FEATURES.index("holds answer 1")
_REMEMBERED = 1 << 15  # passages


@dataclass(frozen=True, slots=True)
class Sight:
    """Passages within one refinement's reach, and which refinement finds which.

    ids        of the passages
    features   [passages, features]
    found      [candidates, K]: places in `ids`; -1 where there is no hit, or one that was read before
    ps         of the best passages so far, highest first
    says       [best passages]: those that give the same answer have the same number
    holds      [passages]: the number of the first of these answers that it holds; -1: none
    """

    ids: tuple[str, ...]
    features: Floats
    found: NDArray[np.int64]
    ps: NDArray[np.float64]
    says: NDArray[np.int64]
    holds: NDArray[np.int64]

    def of_candidates(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of each candidate's new hits [candidates]."""
        summed: NDArray[np.float64] = np.append(values, 0.0)[self.found].sum(1)
        return summed


class Looker:
    """Looks at what an engine would find; `pieces` numbers the rows of `table`, a BERT's word vectors."""

    def __init__(self, engine: Engine, lexicon: Lexicon, pieces: Mapping[str, int], table: Floats) -> None:
        self._engine, self._lexicon, self._recall = engine, lexicon, Recall(engine)
        self._features = PassageFeatures(engine, lexicon, Words(engine, pieces), directions(table))
        self._fetched: dict[str, Passage] = {}

    def __call__(self, observation: Observation, choices: Choices) -> Sight | None:
        """Of all refinements that may be chosen; None where the engine cannot answer them."""
        tried = choices.refinements()
        try:
            lists = self._recall(observation, tried)
        except QueryError:
            return None
        ids, found = _unseen(lists, observation.seen)
        best = observation.passages[:K]
        passages, read = self._passages(ids), self._passages([each.id for each in best])
        features = self._features(observation, passages, read, found, tried, choices.log_probabilities)
        said: dict[str, int] = {}
        says = np.array([said.setdefault(" ".join(self._lexicon.terms(each.answer)), len(said)) for each in best], int)
        held = features[:, _FIRST_ANSWER : _FIRST_ANSWER + len(best)] > 0
        holds = np.where(held.any(1), says[held.argmax(1)], -1) if len(best) else np.full(len(ids), -1)
        return Sight(tuple(ids), features, found, np.array([each.score for each in best]), says, holds)

    def _passages(self, ids: Sequence[str]) -> list[Passage]:
        """As the engine has them; most come again at the next step."""
        if len(self._fetched) > _REMEMBERED:
            self._fetched = {}  # another thread may still look into the old one
        fetched = self._fetched
        missing = [id for id in ids if id not in fetched]
        fetched.update(zip(missing, self._engine.passages(missing), strict=True))
        return [fetched[id] for id in ids]


def _unseen(lists: Sequence[Sequence[Hit]], seen: Set[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The passages of lists that were not seen, in order of appearance, and which list has which [lists, K]."""
    ids, places = distinct_hits(lists, K)
    new = np.array([id not in seen for id in ids], np.bool_)
    place = np.append(np.where(new, np.cumsum(new) - 1, -1), -1)
    return [id for id, own in zip(ids, new.tolist(), strict=True) if own], place[places]
