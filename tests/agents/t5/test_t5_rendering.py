"""States and refinements as strings: the paper's phrases out, and anything at all back in without a crash."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_world import PASSAGES
from tiny_pointer import observations

from orienteer.agents.t5.rendering import STOP_SENTENCE, Layout, Parsed, parse_output, render, sentence
from orienteer.engine import ReferenceEngine
from orienteer.engine.embedded.analysis import analyze
from orienteer.query import G1, G4, Operator, Refinement
from orienteer.session import Observation, ObservedPassage

ENGINE = ReferenceEngine(PASSAGES)


def narnia(*refinements: Refinement) -> Observation:
    """The paper's example."""
    passages = (
        ObservedPassage(
            "1", "The Chronicles  of Narnia", "a series of seven fantasy novels by C. S. Lewis", "seven", 0.9
        ),
        ObservedPassage("2", "", "From the seven books, there have been three film adaptations", "seven", 0.8),
        ObservedPassage("3", "a b c d e f g h i j k l", " ".join(map(str, range(40))), "Lewis's", 0.7),
    )
    question = "how many parts does chronicles of narnia have"
    return Observation(question, refinements, passages, (), (), {}, frozenset(), 0, 20, False, 0)


def test_a_state_is_rendered_in_the_papers_phrases_in_the_order_of_events() -> None:
    made = (
        Refinement("+", "contents", "lewis"),
        Refinement("^", "contents", "battle", 2.0),
        Refinement("or", "contents", "film"),
        Refinement("-", "title", "religion"),
        Refinement("^", "title", "magic", 0.1),
    )
    thirty = " ".join(map(str, range(30)))
    assert render(narnia(*made), G4, Layout()) == (
        "Grammar: G4. Query: 'how many parts does chronicles of narnia have'. Contents must contain: 'lewis'. "
        "Contents should contain: 'battle' boost 2. Should contain: 'film'. Title cannot contain: 'religion'. "
        "Title should contain: 'magic' boost 0.1. "
        "Answer: 'seven'. Title: 'The Chronicles of Narnia'. "
        "Result: 'a series of seven fantasy novels by C. S. Lewis'. "
        "Answer: 'seven'. Result: 'From the seven books, there have been three film adaptations'. "
        f"Answer: 'Lewis's'. Title: 'a b c d e f g h i j'. Result: '{thirty}'."
    )


def test_the_grammar_is_the_first_thing_said() -> None:
    assert render(narnia(), G1, Layout()).startswith("Grammar: G1. Query: 'how many")


@pytest.mark.parametrize(
    ("text", "refinements"),
    [
        ("Contents must contain: 'novels'.", [("+", "contents", "novels", 1.0)]),
        ("contents must contain : ' novels ' .", [("+", "contents", "novels", 1.0)]),
        ("Contents must contain: novels", [("+", "contents", "novels", 1.0)]),
        ("Title cannot contain: 'o'neil'.", [("-", "title", "o'neil", 1.0)]),
        ("Title cannot contain: ''tis'.", [("-", "title", "'tis", 1.0)]),
        ("Contents must contain: \"rock 'n' roll\".", [("+", "contents", "rock 'n' roll", 1.0)]),
        ("Contents should contain: 'draftees' boost 4.", [("^", "contents", "draftees", 4.0)]),
        ("contents should contain : ' draft ' boost 0 . 1 .", [("^", "contents", "draft", 0.1)]),
        ("Contents must contain: 'boost'.", [("+", "contents", "boost", 1.0)]),
        ("Contents must contain: 'u.s.a.'.", [("+", "contents", "u.s.a.", 1.0)]),
        ("Should contain: 'a', 'b'.", [("or", "contents", "a", 1.0), ("or", "contents", "b", 1.0)]),
        (
            "Contents must contain: 'a'. Title should contain: 'b' boost 6. Should contain: 'c'.",
            [("+", "contents", "a", 1.0), ("^", "title", "b", 6.0), ("or", "contents", "c", 1.0)],
        ),
        ("Contents must contain: ''. Should contain: 'x'.", [("or", "contents", "x", 1.0)]),
    ],
)
def test_what_was_written_is_read(text: str, refinements: list[tuple[str, str, str, float]]) -> None:
    assert parse_output(text) == Parsed(tuple(Refinement(*each) for each in refinements))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["Stop.", "stop .", " STOP"])
def test_stop_is_read(text: str) -> None:
    assert parse_output(text) == Parsed(stop=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("Stop stop stop", "no refinement"),
        ("the the the", "no refinement"),
        ("Contents must contain:", "empty term"),
        ("Contents must contain: ''.", "empty term"),
        ("Contents should contain: 'x'.", "without its weight"),
        ("Contents should contain: 'x' boost 0.", "a boost of 0"),
        ("Contents should contain: 'x' boost 9999.", "a boost of 9999"),
        ("Contents must contain: 'x' boost 4.", "takes none"),
        ("Contents must contain: '" + "x" * 300 + "'.", "300 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(text: str, why: str) -> None:
    parsed = parse_output(text)
    assert (parsed.refinements, parsed.stop) == ((), False)
    assert why in parsed.why


_TERMS = st.one_of(
    st.text(min_size=1, max_size=30).flatmap(
        lambda text: st.sampled_from(found) if (found := analyze(text)) else st.just("lamp")
    ),
    st.sampled_from(["o'neil", "1,000.5", "u.s.a", "boost", "stop", "contain", "d'artagnan's", "b.b.c", "4"]),
)


@st.composite
def refinements(draw: st.DrawFn) -> Refinement:
    operator: Operator = draw(st.sampled_from(G4.operators))
    return operator.apply(draw(st.sampled_from(operator.fields)), draw(_TERMS))


@pytest.mark.long
@given(st.lists(refinements(), min_size=1, max_size=4))
def test_every_sentence_with_an_index_term_is_read_back_as_it_was(made: list[Refinement]) -> None:
    assert parse_output(" ".join(map(sentence, made))) == Parsed(tuple(made))
    for each in made:
        assert parse_output(sentence(each).lower()).refinements[0].op == each.op


_SHARDS = [
    "Contents", "Title", "must", "cannot", "should", "contain", ":", "'", '"', ".", " boost ", "4", "0.1", "Stop.", " ",
    "\n", "x", "’", "\ud800", "\x00", "Should contain: ", "Contents must contain: '", "+", "^",
]  # fmt: skip


@given(st.one_of(st.text(), st.lists(st.sampled_from(_SHARDS), max_size=30).map("".join)))
@example("Contents must contain: '" * 500)
@example("should contain:" + "'," * 2000)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parsed = parse_output(text)
    assert bool(parsed.refinements) + parsed.stop + bool(parsed.why) == 1
    for refinement in parsed.refinements:
        assert Refinement(refinement.op, refinement.field, refinement.term, refinement.weight) == refinement


@given(st.data())
def test_any_observation_is_one_line_of_text(data: st.DataObject) -> None:
    text = render(data.draw(observations(ENGINE)), G4, Layout())
    assert "\n" not in text
    text.encode()  # no lone surrogate is left
    assert parse_output(STOP_SENTENCE).stop
