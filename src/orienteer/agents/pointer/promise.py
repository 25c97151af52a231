"""What refinements could bring, told without reading: the passages they find that hold the answer and are new.

Rocchio reads some hundred passages to label a state. Whether a passage holds the answer stands in its text; only how
high the reader would rank it does not. So every refinement of every state that an agent reaches can be labelled for the
price of one call to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orienteer.agents.pointer.labels import Label
from orienteer.agents.pointer.slots import SLOTS, grammar_slots, open_slots, usable
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError
from orienteer.query import Grammar, Refinement
from orienteer.rocchio.notes import Notes
from orienteer.session import Lexicon, Observation, Session
from orienteer.session.score import K

# The score that one more passage with the answer among the best five brings, about: 0.2 · w + 0.6 · w · (one of two is
# read exactly) with the mean weight w = 0.2.
_WORTH = 0.1


class Promises:
    """Labels of states under a grammar; what is known of a question's passages is kept from state to state."""

    def __init__(self, engine: Engine, grammar: Grammar) -> None:
        self._engine, self._lexicon = engine, Lexicon(engine)
        self._grammar, self._slots = grammar, grammar_slots(grammar)

    def __call__(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Label | None]:
        """None where there is nothing to say: no answer is known."""
        notes = {session.question.id: Notes(session.question) for session in sessions}
        return [
            self._label(session, seen, notes[session.question.id])
            for session, seen in zip(sessions, observations, strict=True)
        ]

    def _label(self, session: Session, observation: Observation, notes: Notes) -> Label | None:
        if session.score is None:
            return None
        room = K - sum(bool(each.relevant) for each in session.best)
        refinements = self._refinements(observation) if room else []
        try:
            lists = self._engine.refine(session.query, refinements, K) if refinements else []
        except QueryError:
            return None
        new = [[hit.id for hit in hits if hit.id not in observation.seen] for hits in lists]
        slots = [notes.slots(ids) for ids in new]
        notes.judge(self._engine.passages(notes.unjudged()))
        holding = [min(room, int(notes.relevant[own].sum())) for own in slots]
        gains = ((r, _WORTH * count) for r, count in zip(refinements, holding, strict=True) if count)
        return Label(self._grammar, tuple(gains))

    def _refinements(self, observation: Observation) -> list[Refinement]:
        terms = usable(observation, self._lexicon)
        places = np.argwhere(open_slots(terms) & self._slots).tolist() if terms else []
        return [SLOTS[slot][0].apply(SLOTS[slot][1], terms[term].text) for term, slot in places]
