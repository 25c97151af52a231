"""The actions of an agent: a term in one of fifteen slots (operator and field), of which a grammar allows some.

An action's number is term · slots + slot, where the term is counted among the observation's usable terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.errors import OrienteerError
from orienteer.query import BOOSTS, FIELDS, G4, Field, Grammar, Operator, Refinement
from orienteer.query.refinement import MAX_CLAUSES, MAX_TERM_CHARS
from orienteer.session import Lexicon, Observation, Term

Slot = tuple[Operator, Field]

SLOTS: tuple[Slot, ...] = tuple((operator, field) for operator in G4.operators for field in operator.fields)
SLOT_OF = {slot: number for number, slot in enumerate(SLOTS)}
OPERATORS: tuple[Operator, ...] = G4.operators
assert len(SLOTS) == 1 + (len(OPERATORS) - 1) * len(FIELDS)


def slot_of(refinement: Refinement) -> int:
    return SLOT_OF[Operator(refinement.op, refinement.weight), refinement.field]


def nearest_slot(refinement: Refinement) -> int:
    """The slot of any refinement; a boost that no grammar has, as a person may write, counts as the nearest."""
    if refinement.op != "^":
        return slot_of(refinement)
    weight = min(BOOSTS, key=lambda boost: abs(log(boost / refinement.weight)))
    return SLOT_OF[Operator("^", weight), refinement.field]


def usable_terms(observation: Observation, lexicon: Lexicon) -> list[Term]:
    """The observation's terms that make a legal refinement."""
    return [
        term
        for term in observation.terms
        if len(term.text) <= MAX_TERM_CHARS and (same := lexicon.as_term(term.text)) and same not in observation.used
    ]


def can_refine(observation: Observation, lexicon: Lexicon) -> bool:
    """Whether the query can take one more clause."""
    words = max(len(observation.question.split()), len(lexicon.terms(observation.question)))
    return words + len(observation.refinements) < MAX_CLAUSES


def open_slots(terms: Sequence[Term]) -> NDArray[np.bool_]:  # [terms, slots]
    """Which slots each term can fill: a word of a title as `title`, any other as `contents`.

    The plain term has no field of its own, so a word found only in a title can be one.
    """
    in_title = np.array(["title" in term.sources for term in terms], np.bool_).reshape(-1, 1)
    elsewhere = np.array([bool(term.sources - {"title"}) for term in terms], np.bool_).reshape(-1, 1)
    title = np.array([field == "title" for _, field in SLOTS])
    plain = np.array([operator.op == "or" for operator, _ in SLOTS])
    allowed: NDArray[np.bool_] = plain | np.where(title, in_title, elsewhere)
    return allowed


def grammar_slots(grammar: Grammar) -> NDArray[np.bool_]:  # [slots]
    return np.array([operator in grammar.operators for operator, _ in SLOTS], np.bool_)


def grammar_bits(grammar: Grammar) -> NDArray[np.float32]:  # [operators]
    """Which operators the grammar has, as model input: with fewer, there is sooner nothing left to gain."""
    return np.array([operator in grammar.operators for operator in OPERATORS], np.float32)


@dataclass(frozen=True, slots=True)
class RankedActions:
    """Every legal refinement of a state, most probable first, and the probability of stopping."""

    terms: tuple[Term, ...]
    actions: NDArray[np.int64]  # term · slots + slot
    log_probabilities: NDArray[np.float64]
    stop: float

    def __len__(self) -> int:
        return len(self.actions)

    def refinement(self, rank: int) -> Refinement:
        term, slot = divmod(int(self.actions[rank]), len(SLOTS))
        return _refinement(slot, self.terms[term].text)

    def refinements(self) -> list[Refinement]:
        """All of them, most probable first."""
        terms, slots = np.divmod(self.actions, len(SLOTS))
        return [_refinement(slot, self.terms[t].text) for t, slot in zip(terms.tolist(), slots.tolist(), strict=True)]


@lru_cache(1 << 15)  # a session's terms recur, and validating a refinement takes time
def _refinement(slot: int, term: str) -> Refinement:
    operator, field = SLOTS[slot]
    return operator.apply(field, term)


def rank_actions(
    slots: NDArray[np.float32],  # [terms, slots]
    stop: float,
    legal: NDArray[np.bool_],  # [terms, slots]
    terms: tuple[Term, ...],
) -> RankedActions:
    """The softmax over the logits of all legal refinements and of stopping; ties in order of their numbers."""
    actions = np.flatnonzero(legal)
    logits = np.append(slots.reshape(-1)[actions], stop).astype(np.float64)
    logits -= logits.max()
    logs = logits - np.log(np.exp(logits).sum())
    order = np.argsort(-logs[:-1], kind="stable")
    return RankedActions(terms, actions[order], logs[:-1][order], float(np.exp(logs[-1])))


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a state's scores become an action.

    stop             where an agent may stop, it does once the probability of stopping is at least this
    lookahead        whether the engine is asked what every refinement finds before one is taken
    success_weight   what one of five passages holding the answer is worth, where NDCG@5 = 1 is worth 1
    read_cost        what reading a passage costs, in the same unit
    undo_threshold   what a refinement of a refined query must be worth; where none is, the last one is undone
    """

    stop: float = 0.5
    lookahead: bool = True
    success_weight: float = 6.0
    read_cost: float = 0.003
    undo_threshold: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.stop <= 1:
            raise OrienteerError(f"a stop threshold of {self.stop}; expected a probability, 0 to 1")
        if self.success_weight < 0:
            raise OrienteerError(f"a success weight of {self.success_weight}; expected 0 or more")

    def as_dict(self) -> dict[str, Any]:
        """As a model's folder stores it."""
        return {_STORED.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Decoding:
        names = {stored: name for name, stored in _STORED.items()}
        return cls(**{names.get(name, name): value for name, value in row.items()})


# The keys of `Decoding` in config.json are those of the first version.
_STORED = {"lookahead": "look", "success_weight": "success", "read_cost": "price", "undo_threshold": "back"}
