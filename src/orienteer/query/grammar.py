"""The paper's five grammars, as data: which refinements an agent may write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orienteer.query.refinement import FIELDS, Field, Op, Refinement

BOOSTS = (0.1, 2.0, 4.0, 6.0, 8.0)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with its weight, without a term: `+`, `-`, `^4`, or the plain term."""

    op: Op
    weight: float = 1.0

    @property
    def fields(self) -> tuple[Field, ...]:
        return ("contents",) if self.op == "or" else FIELDS

    def apply(self, field: Field, term: str) -> Refinement:
        return Refinement(self.op, field, term, self.weight)


@dataclass(frozen=True, slots=True)
class Grammar:
    name: str
    operators: tuple[Operator, ...]

    def refinements(self, field: Field, term: str) -> Iterator[Refinement]:
        """Every refinement the grammar allows for a term found in a field."""
        for operator in self.operators:
            if field in operator.fields:
                yield operator.apply(field, term)


_PLAIN = (Operator("or"),)
_BOOST = tuple(Operator("^", boost) for boost in BOOSTS)
_FILTER = (Operator("+"), Operator("-"))

G0 = Grammar("G0", _PLAIN)
G1 = Grammar("G1", _BOOST)
G2 = Grammar("G2", _FILTER)
G3 = Grammar("G3", _PLAIN + _FILTER)
G4 = Grammar("G4", _PLAIN + _BOOST + _FILTER)

GRAMMARS = {grammar.name: grammar for grammar in (G0, G1, G2, G3, G4)}
