"""Typing errors become visible refinements."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import Wanderer

from orienteer.data.passage import Question
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.engine.embedded.kernels.nearest_terms import edit_distances
from orienteer.query import Refinement
from orienteer.session import STOP, Action, AgentCost, Environment, Observation, Settings, run_sessions
from orienteer.session.spelling import Correction, SpellingAgent, corrections, with_spelling


def slow_distance(one: str, other: str) -> int:
    """Optimal string alignment by its definition."""
    table = np.add.outer(np.arange(len(one) + 1), np.arange(len(other) + 1))
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            table[i, j] = min(
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (one[i - 1] != other[j - 1])
            )
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return int(table[-1, -1])


WORDS = st.text("abc", max_size=7)


@given(st.lists(WORDS, min_size=1, max_size=8), WORDS, st.integers(1, 2))
def test_the_kernel_gives_the_edit_distance_by_its_definition(terms: list[str], word: str, most: int) -> None:
    ends = np.cumsum([0, *map(len, terms)])
    found = np.empty(len(terms), np.uint8)
    edit_distances(
        np.frombuffer("".join(terms).encode() + b" ", np.uint8), ends, np.frombuffer(word.encode() or b"", np.uint8),
        most, found,
    )  # fmt: skip
    assert [end - start for start, end in pairwise(ends)] == list(map(len, terms))
    assert found.tolist() == [min(slow_distance(term, word), most + 1) for term in terms]


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("keper", "keeper"), ("kepeer", "keeper"), ("keeeper", "keeper"), ("lighthose", ""), ("beacom", "beacon")],
)
def test_a_word_that_no_document_has_is_offered_the_nearest_term(
    engine: EmbeddedEngine, typed: str, nearest: str
) -> None:
    found = corrections(engine, f"who was {typed} of Ardle")
    assert [(each.typed, each.nearest[0]) for each in found] == ([(typed, nearest)] if nearest else [])


def test_known_words_numbers_and_short_words_are_left_alone(engine: EmbeddedEngine) -> None:
    assert corrections(engine, "who was keeper of ardle in 1872 lmp") == []


def test_an_engine_without_a_vocabulary_corrects_nothing(engine: EmbeddedEngine) -> None:
    reference = ReferenceEngine(engine.passages(["ardle-1"]))
    agent = Wanderer()
    assert corrections(reference, "who was keper") == []
    assert with_spelling(agent, reference) is agent


class Patient:
    """Stops at once, and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def act(self, observations: list[Observation]) -> list[Action]:
        self.seen += observations
        return [STOP for _ in observations]


def test_the_correction_is_the_first_refinement_and_the_agent_goes_on_from_it(engine: EmbeddedEngine) -> None:
    inner = Patient()
    environment = Environment(engine, LexicalReader(), Settings(steps=4))
    asked = [Question("a", "who was keper of the beacom on the reef"), Question("b", "who was keeper of Ardle")]
    both, plain = run_sessions(environment, with_spelling(inner, engine), asked).sessions
    expected = (Refinement("or", "contents", "keeper"), Refinement("or", "contents", "beacon"))
    assert both.query.refinements == expected
    assert plain.query.refinements == ()
    assert {len(each.refinements) for each in inner.seen} == {0, 2}


class Counting(Patient):
    """Says that each decision scored seven passages."""

    def act_with_costs(self, observations: list[Observation]) -> list[tuple[Action, AgentCost]]:
        return [(action, AgentCost(passages_scored=7)) for action in self.act(observations)]


def test_what_the_agent_computes_is_counted_after_corrections_too(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=4))
    asked = [Question("a", "who was keper of Ardle")]
    [session] = run_sessions(environment, with_spelling(Counting(), engine), asked).sessions
    assert len(session.query.refinements) == 1
    assert session.cost == AgentCost(passages_scored=7)


def test_a_correction_that_was_undone_is_not_made_again(engine: EmbeddedEngine) -> None:
    from orienteer.session import UNDO

    inner = Patient()
    agent = SpellingAgent(inner, engine)
    environment = Environment(engine, LexicalReader(), Settings(steps=4))
    [opened] = environment.open([Question("a", "who was keper of Ardle")])
    [(first, notes)] = agent.act_with_explanations(environment.observe([opened]))
    assert notes == {"by": "spelling", "typed": "keper"}
    [corrected] = environment.step([opened], [first])
    [undone] = environment.step([corrected], [UNDO])
    assert agent.act(environment.observe([undone])) == [STOP]


def test_a_correction_names_its_refinement() -> None:
    assert str(Correction("keper", ("keeper", "reaper")).refinement) == '"keeper"'
