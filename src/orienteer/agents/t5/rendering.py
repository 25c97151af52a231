"""An observation and a refinement as plain strings, in the paper's phrases (`tab:t5_observation_example`).

    Grammar: G4. Query: 'how many parts does chronicles of narnia have'. Contents must contain: 'lewis'.
    Contents should contain: 'battle' boost 2. Answer: 'seven'. Title: 'The Chronicles of Narnia'. Result: '…'. …

The refinements stand in the order in which they were made. What the model shall write is one of these sentences, or
`Stop.`; nothing in them is escaped, `parsing` reads them all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from orienteer.agents.action_space import SLOTS
from orienteer.query import Field, Grammar, Operator, Refinement
from orienteer.query.refinement import clean
from orienteer.session import Observation, ObservedPassage

STOP_SENTENCE = "Stop."

_VERBS = {"+": "must", "-": "cannot", "^": "should"}
# Words before the term, and after it.
Frame = tuple[str, str]


def frame(operator: Operator, field: Field) -> Frame:
    """What stands around the term of a refinement."""
    if operator.op == "or":
        return "Should contain: '", "'."
    head = f"{field.capitalize()} {_VERBS[operator.op]} contain: '"
    return head, f"' boost {operator.weight:g}." if operator.op == "^" else "'."


def phrases() -> list[str]:
    """All that the agent writes beside words of what it reads."""
    return [STOP_SENTENCE, *("".join(frame(operator, field)) for operator, field in SLOTS)]


def sentence(refinement: Refinement) -> str:
    """A refinement as the model reads and writes it."""
    before, after = frame(Operator(refinement.op, refinement.weight), refinement.field)
    return f"{before}{refinement.term}{after}"


def render(observation: Observation, grammar: Grammar, title_words: int = 10, snippet_words: int = 30) -> str:
    """The whole source; the model sees as much of it as its tokens allow, the last passages fall off first."""
    return prefix(grammar) + render_state(observation, title_words, snippet_words)


def prefix(grammar: Grammar) -> str:
    return f"Grammar: {grammar.name}. "


def render_state(observation: Observation, title_words: int = 10, snippet_words: int = 30) -> str:
    return " ".join([
        f"Query: '{clean(observation.question)}'.",
        *map(sentence, observation.refinements),
        *(part for passage in observation.passages for part in passage_sentences(passage, title_words, snippet_words)),
    ])  # fmt: skip


def passage_sentences(passage: ObservedPassage, title_words: int, snippet_words: int) -> Iterator[str]:
    """Answer, title and the words around the answer; a passage without a title has no sentence for it."""
    yield f"Answer: '{clean(passage.answer)}'."
    if title := " ".join(clean(passage.title).split()[:title_words]):
        yield f"Title: '{title}'."
    yield f"Result: '{' '.join(clean(passage.snippet).split()[:snippet_words])}'."
