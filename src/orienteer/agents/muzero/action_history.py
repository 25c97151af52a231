"""The past of a session as actions, told by the observation alone: the refinements in force, oldest first.

Which source a word once came from is no longer known, so every past word counts as one of the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from orienteer.agents.action_space import SLOTS, nearest_slot
from orienteer.agents.muzero.grammar import INDEX, OPERATORS, QueryGrammar
from orienteer.agents.muzero.tries import Spelling
from orienteer.query import FIELDS, Refinement


class Memory:
    """Refinements as actions of one grammar."""

    def __init__(self, grammar: QueryGrammar, spelling: Spelling) -> None:
        self._grammar, self._spelling = grammar, spelling
        self._rules_of = lru_cache(None)(self._found)

    def __call__(self, refinements: Sequence[Refinement], most: int) -> list[int]:
        """The last `most` actions."""
        actions: list[int] = []
        for refinement in reversed(refinements):
            if len(actions) >= most:
                break
            pieces = [len(self._grammar) + piece for piece in self._spelling.pieces(refinement.term)]
            actions = [*self._rules_of(nearest_slot(refinement)), *pieces, *actions]
        return actions[-most:] if most else []

    def _found(self, slot: int) -> tuple[int, ...]:
        """The rules that choose an operator and a field; those of another grammar are left out."""
        operator, field = OPERATORS.index(SLOTS[slot][0]), FIELDS.index(SLOTS[slot][1])
        whole = [
            number for number, rule in enumerate(self._grammar.rules)
            if (rule.operator, rule.field) == (operator, field) and rule.source in (-1, INDEX)
        ]  # fmt: skip
        if whole:
            return (whole[0],)
        apart = ((operator, -1), (-1, field))
        return tuple(n for n, rule in enumerate(self._grammar.rules) if (rule.operator, rule.field) in apart)
