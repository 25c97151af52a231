"""States and refinements as plain strings, in the paper's phrases (`tab:t5_observation_example`), and back.

    Grammar: G4. Query: 'how many parts does chronicles of narnia have'. Contents must contain: 'lewis'.
    Contents should contain: 'battle' boost 2. Answer: 'seven'. Title: 'The Chronicles of Narnia'. Result: '…'. …

Refinements stand in the order in which they were made. The target is one of these sentences, or `Stop.`. Nothing in
a sentence is escaped, and decoded wordpieces are lower-case with blanks around signs, so the parser is lenient: any
case, blanks anywhere, quotes or none, a list of plain terms, several sentences at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orienteer.agents.action_space import SLOTS
from orienteer.agents.t5.model_files import ModelFiles
from orienteer.errors import ModelCorruptError, QueryError
from orienteer.models.checks import number
from orienteer.query import GRAMMARS, Field, Grammar, Op, Operator, Refinement
from orienteer.query.refinement import clean
from orienteer.session import Observation, ObservedPassage

STOP_SENTENCE = "Stop."
_LONGEST = 1 << 14  # tokens of a source or target, words of a passage

_VERBS = {"+": "must", "-": "cannot", "^": "should"}
_OPS: dict[str, Op] = {"must": "+", "cannot": "-", "should": "^"}
_HEAD = re.compile(r"(?:\b(contents|title)\s+(must|cannot|should)|\bshould)\s+contain\s*:", re.IGNORECASE)
_STOP = re.compile(r"\s*stop\s*\.?\s*", re.IGNORECASE)
_BOOST = re.compile(r"\s+boost\s+(\d{1,4}(?:\s*\.\s*\d{1,4})?)$", re.IGNORECASE)
_SEPARATOR = re.compile(r"'\s*,\s+'")
_QUOTES = "'\"‘’“”`"

Frame = tuple[str, str]  # the words before a refinement's term, and after it


@dataclass(frozen=True, slots=True)
class TextLayout:
    """What weights were trained to see; with another layout a model reads noise.

    max_source, max_target   tokens in and out
    title_words, snippet     words of a passage's title and text
    """

    max_source: int = 512
    max_target: int = 32
    title_words: int = 10
    snippet: int = 30

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Layout(TextLayout):
    """The T5 agent's layout; `grammar` is that of the bare name `t5`."""

    grammar: str = "G1"


def check_layout(layout: TextLayout) -> None:
    """Raises ValueError where a number is out of its range: a target's positions are allocated."""
    row = layout.as_dict()
    for name, least in (("max_source", 1), ("max_target", 1), ("title_words", 0), ("snippet", 0)):
        number(row, name, least, _LONGEST)


def layout_of(files: ModelFiles) -> Layout:
    row: Mapping[str, Any] = files.entry.get("layout", {})
    try:
        layout = Layout(**row)
        check_layout(layout)
        if layout.grammar not in GRAMMARS:
            raise ValueError(f"a grammar {layout.grammar!r}")
    except (TypeError, ValueError) as error:
        raise ModelCorruptError(f"the layout of a T5 agent cannot be read: {error}; train it again") from None
    return layout


def frame(operator: Operator, field: Field) -> Frame:
    """The text around the term of a refinement."""
    if operator.op == "or":
        return "Should contain: '", "'."
    head = f"{field.capitalize()} {_VERBS[operator.op]} contain: '"
    return head, f"' boost {operator.weight:g}." if operator.op == "^" else "'."


def phrases() -> list[str]:
    """All that the agent writes beside words of its source."""
    return [STOP_SENTENCE, *("".join(frame(operator, field)) for operator, field in SLOTS)]


def sentence(refinement: Refinement) -> str:
    """A refinement as the model reads and writes it."""
    before, after = frame(Operator(refinement.op, refinement.weight), refinement.field)
    return f"{before}{refinement.term}{after}"


def render(observation: Observation, grammar: Grammar, layout: TextLayout) -> str:
    """The whole source; the model sees as much of it as its tokens allow, the last passages fall off first."""
    return prefix(grammar) + render_state(observation, layout)


def prefix(grammar: Grammar) -> str:
    return f"Grammar: {grammar.name}. "


def render_state(observation: Observation, layout: TextLayout) -> str:
    return render_question(observation.question, observation.passages, layout, observation.refinements)


def render_question(
    question: str, passages: Sequence[ObservedPassage], layout: TextLayout, refinements: Sequence[Refinement] = ()
) -> str:
    """A question with its refinements and passages, as agent and answer generator read it."""
    sentences = [f"Query: '{clean(question)}'.", *map(sentence, refinements)]
    return " ".join([*sentences, *_passage_sentences(passages, layout)])


def _passage_sentences(passages: Sequence[ObservedPassage], layout: TextLayout) -> Iterator[str]:
    """Answer, title and the words around the answer; a passage without a title has no sentence for it."""
    for passage in passages:
        yield f"Answer: '{clean(passage.answer)}'."
        if title := " ".join(clean(passage.title).split()[: layout.title_words]):
            yield f"Title: '{title}'."
        yield f"Result: '{' '.join(clean(passage.snippet).split()[: layout.snippet])}'."


@dataclass(frozen=True, slots=True)
class Parsed:
    """Refinements in their order, or `stop`; where neither could be parsed, `why` says the reason."""

    refinements: tuple[Refinement, ...] = ()
    stop: bool = False
    why: str = ""


def parse_output(text: str) -> Parsed:
    """Parses what a model wrote. Never raises."""
    if _STOP.fullmatch(text):
        return Parsed(stop=True)
    heads = list(_HEAD.finditer(text))
    if not heads:
        return Parsed(why="no refinement in it" if text.strip() else "empty")
    refinements: list[Refinement] = []
    why = ""
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : after.start() if after else len(text)]
        try:
            refinements += _refinements(head[1], head[2], body)
        except (QueryError, ValueError) as error:
            why = why or str(error).splitlines()[0]
    return Parsed(tuple(refinements), why="" if refinements else why)


def _refinements(field_name: str | None, verb: str | None, body: str) -> Iterator[Refinement]:
    body = clean(body).removesuffix(".").rstrip()
    if field_name is None or verb is None:
        for term in _SEPARATOR.split(body):
            yield Refinement("or", "contents", _unquoted(term))
        return
    op = _OPS[verb.lower()]
    field: Field = "title" if field_name.lower() == "title" else "contents"
    boost = _BOOST.search(body)
    if op == "^":
        if boost is None:
            raise ValueError("a boost without its weight")
        yield Refinement(op, field, _unquoted(body[: boost.start()]), float("".join(boost[1].split())))
    elif boost is not None and not body.endswith(tuple(_QUOTES)):
        raise ValueError(f"a boost on a refinement with {verb!r}, which takes none")
    else:
        yield Refinement(op, field, _unquoted(body))


def _unquoted(text: str) -> str:
    """The term without the quotes around it: one at either end, an apostrophe inside stays."""
    text = text.strip()
    if text[:1] and text[0] in _QUOTES:
        text = text[1:]
    if text[-1:] and text[-1] in _QUOTES:
        text = text[:-1]
    return text.strip()
