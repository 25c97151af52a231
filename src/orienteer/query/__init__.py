"""What an agent asks: refinements, queries, Lucene's syntax, the grammars G0 to G4."""

from orienteer.query.grammar import BOOSTS, G0, G1, G2, G3, G4, GRAMMARS, Grammar, Operator
from orienteer.query.refinement import FIELDS, Field, Op, Query, Refinement
from orienteer.query.syntax import escape, parse
from orienteer.query.where import Where, parse_where

__all__ = [
    "BOOSTS", "FIELDS", "G0", "G1", "G2", "G3", "G4", "GRAMMARS",
    "Field", "Grammar", "Op", "Operator", "Query", "Refinement", "Where", "escape", "parse",
    "parse_where",
]  # fmt: skip
