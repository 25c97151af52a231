"""How an observation becomes model input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import PASSAGES
from tiny import tiny_tokenizer
from tiny_pointer import observation, observations, pointer_tokenizer

from orienteer.agents.action_space import SLOTS, grammar_slots, open_slots, slot_of
from orienteer.agents.encoding import (
    ANSWER,
    KINDS,
    MAX_PIECES,
    QUESTION,
    REFINEMENT,
    SNIPPET,
    SOURCES,
    STATE_FEATURES,
    TERM_FEATURES,
    TITLE,
    Featurizer,
    Renderer,
    fair_shares,
    places,
)
from orienteer.engine import ReferenceEngine
from orienteer.errors import ModelCorruptError
from orienteer.query import GRAMMARS, Refinement
from orienteer.session import Lexicon, ObservedPassage, Term

ENGINE = ReferenceEngine(PASSAGES)
TOKENIZER = pointer_tokenizer()
FEATURIZE = Featurizer(TOKENIZER, ENGINE, MAX_PIECES)
PASSAGE = ObservedPassage(
    "ardle-1", "Ardle Light", "Its keeper Maren Holt lit the first lamp in 1871", "Maren Holt", 0.9
)


def spelled(ids: list[int]) -> str:
    """Wordpieces as words; the tiny tokenizer has no decoder."""
    tokens = [TOKENIZER.id_to_token(id) for id in ids]
    return "".join(token[2:] if token.startswith("##") else f" {token}" for token in tokens).strip()


def test_a_row_tells_question_refinements_titles_snippets_and_answers_apart() -> None:
    rendered = FEATURIZE(observation(ENGINE, "who lit the lamp", [PASSAGE])).rendered
    ids, types = rendered.ids.tolist(), rendered.types
    by_kind = {kind: spelled([id for id, t in zip(ids, types, strict=True) if t == kind]) for kind in range(KINDS)}
    assert by_kind[QUESTION] == "[CLS] who lit the lamp [SEP]"
    assert by_kind[REFINEMENT] == "[SEP]"
    assert by_kind[TITLE] == "[unused24] ardle light [SEP]"
    assert by_kind[ANSWER] == "maren holt"
    assert by_kind[SNIPPET] == "its keeper lit the first lamp in 1871 [SEP]"


def test_refinements_stand_in_order_each_behind_the_token_of_its_operator_and_field() -> None:
    seen = observation(ENGINE, "who lit the lamp", [PASSAGE])
    made = (Refinement("+", "title", "reef"), Refinement("^", "contents", "storm", 4.0))
    seen = type(seen)(**{**{name: getattr(seen, name) for name in seen.__slots__}, "refinements": made})
    ids = FEATURIZE(seen).rendered.ids.tolist()
    first, second = (f"[unused{slot_of(refinement)}]" for refinement in made)
    assert f"{first} reef {second} storm" in spelled(ids)


def test_every_piece_noted_for_a_term_is_a_piece_of_that_term() -> None:
    inputs = FEATURIZE(observation(ENGINE, "who lit the first lamp", [PASSAGE]))
    found: dict[tuple[str, str], list[int]] = {}
    for number, source, place in inputs.rendered.occurrences.tolist():
        key = inputs.terms[number].text, SOURCES[source]
        found.setdefault(key, []).append(int(inputs.rendered.ids[place]))
    assert {key: spelled(ids) for key, ids in found.items()} == {
        ("who", "question"): "who", ("lit", "question"): "lit", ("lit", "snippet"): "lit",
        ("first", "question"): "first", ("first", "snippet"): "first", ("lamp", "question"): "lamp",
        ("lamp", "snippet"): "lamp", ("ardle", "title"): "ardle", ("light", "title"): "light",
        ("keeper", "snippet"): "keeper", ("maren", "answer"): "maren", ("holt", "answer"): "holt",
        ("1871", "snippet"): "1871", ("its", "snippet"): "its",
    }  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(observations(ENGINE))
def test_any_observation_makes_a_row_that_fits(seen) -> None:
    inputs = FEATURIZE(seen)
    rendered = inputs.rendered
    assert len(rendered.ids) == len(rendered.types) <= MAX_PIECES
    assert inputs.term_features.shape == (len(inputs.terms), len(TERM_FEATURES))
    assert inputs.state_features.shape == (len(STATE_FEATURES),)
    assert np.isfinite(inputs.term_features).all()
    assert np.isfinite(inputs.state_features).all()
    if len(rendered.occurrences):
        assert rendered.occurrences[:, 0].max() < len(inputs.terms)
        assert rendered.occurrences[:, 2].max() < len(rendered.ids)
        assert (np.diff(rendered.occurrences[:, 0] * 4 + rendered.occurrences[:, 1]) >= 0).all()
    assert not {term.text for term in inputs.terms} & seen.used


@given(st.lists(st.integers(0, 80), max_size=6), st.integers(-5, 300))
def test_shares_fill_the_room_and_cut_only_the_longest(sizes: list[int], room: int) -> None:
    shares = fair_shares(sizes, room)
    assert sum(shares) <= max(0, room)
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    if cut:
        assert max(shares) <= min(cut) + 1
        assert sum(shares) == max(0, room)


def test_an_answer_that_does_not_stand_in_its_snippet_comes_before_it() -> None:
    passage = ObservedPassage("x", "", "the lamp in the tower", "Oskar Lind", 0.5)
    rendered = FEATURIZE(observation(ENGINE, "who", [passage])).rendered
    answer = [int(id) for id, kind in zip(rendered.ids, rendered.types, strict=True) if kind == ANSWER]
    assert spelled(answer) == "oskar lind"


def test_a_snippet_too_long_for_the_room_keeps_its_answer() -> None:
    text = " ".join(["the"] * 70 + ["Maren", "Holt"] + ["the"] * 70)
    crowd = [ObservedPassage(str(n), "Ardle Light", text, "Maren Holt", 0.5) for n in range(5)]
    rendered = FEATURIZE(observation(ENGINE, "who lit the lamp", crowd)).rendered
    assert len(rendered.ids) <= MAX_PIECES
    assert (rendered.types == ANSWER).sum() == 10


def test_terms_are_found_as_whole_words_in_their_order() -> None:
    text = "The lamps and a lamp; Lamp-oil"
    terms = Lexicon(ENGINE).terms(text)
    assert [text[start:end].lower() for _, start, end in places(text, terms)] == list(terms)
    assert places("partly art", ("art",)) == [("art", 7, 10)]


def test_the_slots_of_a_term_follow_from_where_it_stands() -> None:
    title_only = Term("ardle", 1.0, frozenset({"title"}))
    snippet_only = Term("lamp", 1.0, frozenset({"snippet"}))
    [title, contents] = open_slots([title_only, snippet_only])
    assert [SLOTS[n] for n in np.flatnonzero(title)] == [s for s in SLOTS if s[1] == "title" or s[0].op == "or"]
    assert [SLOTS[n] for n in np.flatnonzero(contents)] == [s for s in SLOTS if s[1] == "contents"]


@pytest.mark.parametrize("name", list(GRAMMARS))
def test_a_grammar_opens_the_slots_of_its_operators(name: str) -> None:
    opened = {SLOTS[n] for n in np.flatnonzero(grammar_slots(GRAMMARS[name]))}
    assert opened == {(operator, field) for operator in GRAMMARS[name].operators for field in operator.fields}


def test_a_tokenizer_without_unused_tokens_is_refused() -> None:
    with pytest.raises(ModelCorruptError, match=r"no token \[unused0\]"):
        Renderer(tiny_tokenizer(), Lexicon(ENGINE))
