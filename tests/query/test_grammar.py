"""The grammars G0 to G4: which refinements each allows for a term."""

from __future__ import annotations

import pytest

from orienteer.query import BOOSTS, FIELDS, GRAMMARS, Field, Refinement, parse

PLAIN: dict[Field, list[str]] = {"contents": ['"t"'], "title": []}
BOOST = {field: [f'({field}:"t"^{w})' for w in ("0.1", "2", "4", "6", "8")] for field in FIELDS}
FILTER = {field: [f'+({field}:"t")', f'-({field}:"t")'] for field in FIELDS}

ALLOWED: dict[str, list[dict[Field, list[str]]]] = {
    "G0": [PLAIN],
    "G1": [BOOST],
    "G2": [FILTER],
    "G3": [PLAIN, FILTER],
    "G4": [PLAIN, BOOST, FILTER],
}


def test_there_are_five_grammars_known_by_name() -> None:
    assert list(GRAMMARS) == ["G0", "G1", "G2", "G3", "G4"]
    assert all(grammar.name == name for name, grammar in GRAMMARS.items())


def test_the_boosts_are_those_of_the_paper() -> None:
    assert BOOSTS == (0.1, 2.0, 4.0, 6.0, 8.0)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_allows_its_refinements_and_no_others(name: str, field: Field) -> None:
    written = [str(refinement) for refinement in GRAMMARS[name].refinements(field, "t")]
    assert written == [text for part in ALLOWED[name] for text in part[field]]


@pytest.mark.parametrize("field", FIELDS)
def test_what_the_largest_grammar_writes_can_be_read(field: Field) -> None:
    refinements = tuple(GRAMMARS["G4"].refinements(field, "muppet show"))
    assert parse(" ".join(map(str, refinements))).refinements == refinements


def test_every_operator_makes_its_own_refinement() -> None:
    made = [operator.apply("contents", "t") for operator in GRAMMARS["G4"].operators]
    assert len(set(made)) == len(made) == 8
    assert Refinement("^", "contents", "t", 0.1) in made
