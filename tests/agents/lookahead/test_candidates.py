"""Candidates: just what the refinements find, the same with every engine and with a slow reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS
from tiny_pointer import observation

from orienteer.agents import make_agent
from orienteer.agents.action_space import SLOTS, RankedActions
from orienteer.agents.lookahead.passage_features import FEATURES, NARROW, WIDE, directions, scan
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.query import Operator, Query, Refinement
from orienteer.session import Environment, Observation, ObservedPassage, Settings, Term

TERMS, ASKED, COLUMNS = 12, 3, 6  # terms 0 to 2 are the question's, 3 to 5 of interest, the rest are not


@given(
    st.lists(st.lists(st.integers(0, TERMS - 1), max_size=90), min_size=1, max_size=4),
    st.lists(st.integers(-1, COLUMNS - 1), max_size=3),
)
def test_one_pass_computes_what_a_slow_reference_does(passages: list[list[int]], rarest: list[int]) -> None:
    column = np.array([*range(COLUMNS), *[-1] * (TERMS - COLUMNS)], np.int32)
    piece = np.array([n % 5 - 1 for n in range(TERMS)], np.int32)
    kind = np.array([n % 3 for n in range(TERMS)], np.int8)
    share = np.array([0.5, 0.3, 0.2], np.float32)
    alike = np.random.default_rng(0).integers(0, 256, (5, ASKED), np.uint8)
    flat, ends = np.array([t for row in passages for t in row], np.int64), np.cumsum([len(row) for row in passages])
    found = scan(flat, ends, column, COLUMNS, piece, kind, share, alike, np.array(rarest, np.int32))
    for row, terms in enumerate(passages):
        counts, likest, covered, near, figures = (each[row] for each in found)
        assert counts.tolist() == [terms.count(c) for c in range(COLUMNS)]
        assert figures.tolist() == [sum(kind[t] == k for t in terms) for k in (1, 2)]
        for q in range(ASKED):
            of_pieces = [alike[piece[t], q] / 255 for t in terms if piece[t] >= 0]
            assert likest[q] == pytest.approx(1.0 if q in terms else max(of_pieces, default=0.0))
        for place, width in enumerate((NARROW, WIDE)):
            windows = [_covered(terms, end, width, share) for end in range(1, len(terms) + 1)]
            assert covered[place] == pytest.approx(max(windows, default=0.0), abs=1e-6)
        for answer, wanted in enumerate(rarest):
            places = [i for i, t in enumerate(terms) if wanted >= 0 and t == wanted]
            around = [_covered(terms, min(i + WIDE // 2, len(terms)), WIDE, share) for i in places]
            assert near[answer] == pytest.approx(max(around, default=0.0), abs=1e-6)


def _covered(terms: list[int], end: int, width: int, share: np.ndarray) -> float:
    window = set(terms[max(0, end - width) : end])
    return float(sum(share[q] for q in range(ASKED) if q in window))


def _actions(seen: Observation, *words: str) -> RankedActions:
    """The words as required terms, the first the likeliest; one that is not in the observation counts too."""
    known = {term.text: term for term in seen.terms}
    terms = tuple(known.get(word) or Term(word, 1.0, frozenset({"snippet"})) for word in words)
    plus = SLOTS.index((Operator("+"), "contents"))
    return RankedActions(terms, np.arange(len(words)) * len(SLOTS) + plus, np.log([0.5, 0.3, 0.2][: len(words)]), 0.0)


def _plus(question: str, term: str) -> Query:
    return Query(question, (Refinement("+", "contents", term),))


def test_the_candidates_are_just_what_was_not_read(embedded: EmbeddedEngine, pointer: PointerAgent) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    [seen] = environment.observe(environment.open([QUESTIONS[0]]))
    words = [term.text for term in seen.terms][:20]
    for word in words:
        candidates = pointer.look_ahead(seen, _actions(seen, word, "nosuchword"))
        assert candidates is not None
        found = [hit.id for hit in embedded.search(_plus(seen.question, word), 5)]
        assert list(candidates.ids) == [id for id in found if id not in seen.seen]
        assert [candidates.ids[place] for place in candidates.hits[0] if place >= 0] == list(candidates.ids)
        assert (candidates.hits[1] == -1).all()
        worth = candidates.sum_by_refinement(np.arange(1.0, len(candidates.ids) + 1))
        assert worth.tolist() == [sum(range(1, len(candidates.ids) + 1)), 0.0]


def test_features_tell_what_a_passage_has_of_the_question_and_of_answers(
    embedded: EmbeddedEngine, pointer: PointerAgent
) -> None:
    passage = PASSAGES[0]
    word = passage.text.split()[-1].strip(".").lower()
    known = next(other for other in PASSAGES if other.title != passage.title)
    seen = observation(embedded, passage.title, [ObservedPassage(known.id, known.title, "", word, 0.7)])
    candidates = pointer.look_ahead(seen, _actions(seen, word))
    assert candidates is not None
    row = dict(zip(FEATURES, candidates.features[candidates.ids.index(passage.id)].tolist(), strict=True))
    for name in ("share of the question", "share in the title", "share in 40 words", "likeness", "holds answer 1"):
        assert row[name] == pytest.approx(1.0), name
    assert row["holds answer 2"] == row["rarest word missing"] == row["title known"] == 0
    assert row["best PS whose answer it holds"] == pytest.approx(0.7)
    assert row["refinements that find it"] > 0
    assert candidates.held_answers[candidates.ids.index(passage.id)] == 0


def test_every_engine_gives_the_same_candidates(embedded: EmbeddedEngine, pointer_folder: Path) -> None:
    seen_by = []
    for engine in (embedded, ReferenceEngine(PASSAGES)):
        agent = PointerAgent.from_pretrained(pointer_folder, engine, threads=1)
        environment = Environment(engine, LexicalReader(), Settings())
        for seen in environment.observe(environment.open(QUESTIONS[:4])):
            candidates = agent.look_ahead(seen, next(agent.rank([seen])))
            assert candidates is not None
            seen_by.append((candidates.ids, candidates.hits.tolist(), candidates.features))
    half = len(seen_by) // 2
    for (ids, found, features), (other_ids, other_found, other) in zip(seen_by[:half], seen_by[half:], strict=True):
        assert (ids, found) == (other_ids, other_found)
        np.testing.assert_allclose(features, other, rtol=1e-4, atol=1e-5)


def test_what_is_forgotten_is_fetched_again(
    embedded: EmbeddedEngine, pointer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    [seen] = environment.observe(environment.open([QUESTIONS[0]]))
    agent = PointerAgent.from_pretrained(pointer_folder, embedded, threads=1)
    actions = _actions(seen, *[term.text for term in seen.terms][:2])
    first = agent.look_ahead(seen, actions)
    monkeypatch.setattr("orienteer.agents.lookahead.candidates._CACHED_PASSAGES", 0)
    again = agent.look_ahead(seen, actions)
    assert first is not None
    assert again is not None
    assert first.ids == again.ids
    np.testing.assert_array_equal(first.features, again.features)


def test_word_vectors_become_directions() -> None:
    table = np.random.default_rng(0).normal(1.0, 1.0, (50, 8)).astype(np.float32)
    vectors = directions(table, common=2, kept=4)
    assert vectors.shape == (50, 4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)


class OnlyTheContract:
    """An engine without abilities, as one over a service is: terms are numbered as they come."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        for name in ("search", "search_many", "refine", "passages", "idf", "analyze"):
            setattr(self, name, getattr(engine, name))


def test_features_are_the_same_to_the_bit_however_an_engine_numbers_its_terms() -> None:
    """A float32 sum over terms depends on their order; an agent's action must not depend on its engine."""
    stored = bundled_engine()
    environment = Environment(stored, LexicalReader(), Settings())
    agents = [make_agent("pointer", engine, Settings()).agent for engine in (OnlyTheContract(stored), stored)]
    for question in bundled_questions("train")[:6]:
        observations = environment.observe(environment.open([question]))
        candidates = []
        for agent in agents:
            [ranked] = agent.rank(observations)
            candidates.append(agent.look_ahead(observations[0], ranked))
        bare, indexed = candidates
        assert bare.ids == indexed.ids
        assert bare.features.tobytes() == indexed.features.tobytes()
