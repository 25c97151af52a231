"""What can be done with one term: fifteen pairs of operator and field, of which a grammar allows some."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from orienteer.query import BOOSTS, FIELDS, G4, Field, Grammar, Operator, Refinement
from orienteer.query.refinement import MAX_TERM_CHARS
from orienteer.session import Lexicon, Observation, Term

Slot = tuple[Operator, Field]

SLOTS: tuple[Slot, ...] = tuple((operator, field) for operator in G4.operators for field in operator.fields)
SLOT_OF = {slot: number for number, slot in enumerate(SLOTS)}
OPERATORS: tuple[Operator, ...] = G4.operators


def slot_of(refinement: Refinement) -> int:
    return SLOT_OF[Operator(refinement.op, refinement.weight), refinement.field]


def nearest_slot(refinement: Refinement) -> int:
    """The slot of any refinement: a boost that no grammar has, as a person may write, counts as the nearest."""
    if refinement.op != "^":
        return slot_of(refinement)
    weight = min(BOOSTS, key=lambda boost: abs(log(boost / refinement.weight)))
    return SLOT_OF[Operator("^", weight), refinement.field]


def usable(observation: Observation, lexicon: Lexicon) -> list[Term]:
    """The terms offered that make a legal refinement."""
    return [
        term
        for term in observation.terms
        if len(term.text) <= MAX_TERM_CHARS and (same := lexicon.as_term(term.text)) and same not in observation.used
    ]


def open_slots(terms: Sequence[Term]) -> NDArray[np.bool_]:  # [terms, slots]
    """Which slots each term can fill: a word of a title as `title`, any other as `contents`.

    The plain term has no field of its own, so a word found only in a title may be one.
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
    """Which operators there are: with fewer, a session is sooner at its end."""
    return np.array([operator in grammar.operators for operator in OPERATORS], np.float32)


assert len(SLOTS) == 1 + (len(OPERATORS) - 1) * len(FIELDS)
