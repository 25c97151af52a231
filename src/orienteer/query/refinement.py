"""`Refinement` and `Query`: the state of a search as data (the paper's Δq and q_t)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orienteer.errors import (
    BoostError,
    QuerySyntaxError,
    TermTooLongError,
    TooManyClausesError,
    UnknownFieldError,
)

Op = Literal["or", "+", "-", "^"]
Field = Literal["contents", "title"]

OPS: tuple[Op, ...] = ("or", "+", "-", "^")
FIELDS: tuple[Field, ...] = ("contents", "title")

MAX_CLAUSES = 1024
MAX_TERM_CHARS = 256
MAX_BOOST = 1000.0
MIN_BOOST = 1e-30  # what is less would be 0 in Lucene's single precision


@dataclass(frozen=True, slots=True)
class Refinement:
    """One refinement of a query: an operator, a field, a term and, for `^`, a weight.

    `or` is the plain term: it has no field of its own and searches `contents`.
    A term of several words is a phrase.
    """

    op: Op
    field: Field
    term: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise QuerySyntaxError(f"unknown operator {self.op!r}; expected one of {', '.join(OPS)}")
        if self.field not in FIELDS:
            raise UnknownFieldError(f"unknown field {self.field!r}; expected contents or title")
        if self.op == "or" and self.field != "contents":
            raise UnknownFieldError("a plain term searches contents; use ^1 for a plain term in the title")
        object.__setattr__(self, "term", clean(self.term))
        check_term(self.term)
        if self.op == "^":
            check_boost(self.weight)
        elif self.weight != 1.0:
            raise BoostError(f"only ^ takes a weight; found {self.op!r} with weight {self.weight}")

    def __str__(self) -> str:
        from orienteer.query.syntax import render_refinement

        return render_refinement(self)


@dataclass(frozen=True, slots=True)
class Query:
    """A question, whose text is always plain words, and the refinements made so far, in order."""

    question: str
    refinements: tuple[Refinement, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "question", clean(self.question))
        object.__setattr__(self, "refinements", tuple(self.refinements))
        words = self.question.split()
        if len(words) + len(self.refinements) > MAX_CLAUSES:
            raise TooManyClausesError(f"more than {MAX_CLAUSES} clauses; ask with fewer words or refinements")
        if len(self.question) > MAX_TERM_CHARS:
            for word in words:
                check_term(word)

    def refine(self, *refinements: Refinement) -> Query:
        """This query with further refinements: q_{t+1} = q_t Δq_t."""
        return Query(self.question, self.refinements + refinements)

    def __str__(self) -> str:
        from orienteer.query.syntax import render

        return render(self)


def clean(text: str) -> str:
    """White space folded to single blanks; a lone surrogate, which no file can hold, replaced."""
    text = " ".join(text.split())
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_term(term: str) -> None:
    if not term:
        raise QuerySyntaxError("an empty term; write at least one character between the quotes")
    if len(term) > MAX_TERM_CHARS:
        raise TermTooLongError(f"a term of {len(term)} characters ({term[:20]}…), at most {MAX_TERM_CHARS} are allowed")


def check_boost(weight: float) -> None:
    if not MIN_BOOST <= weight <= MAX_BOOST:
        raise BoostError(f"a boost of {weight:g}; expected more than 0 and at most {MAX_BOOST:g}")
