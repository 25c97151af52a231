"""What an agent sees of a session, as data; each learned agent encodes it in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine
from orienteer.query import Refinement
from orienteer.reader.decoding import snippet
from orienteer.session.settings import Settings
from orienteer.session.state import Session, best_of

# Function words are never offered as terms. The engine's analyser removes 33 of them; the others are index terms.
_DETERMINERS = """
    a an the this that these those some any each every either neither both all few many much more most
    less such other another own same
"""
_PRONOUNS = """
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    someone something anyone anything everyone everything nobody nothing
"""
_QUESTION_WORDS = "who whom whose which what when where why how whether"
_AUXILIARIES = """
    am is are was were be been being have has had having do does did doing done
    can could shall should will would may might must
    isn't wasn't don't doesn't didn't can't won't it's that's i'm
"""
_PREPOSITIONS = """
    about above across after against along among around as at before behind below between
    by down during for from in into near of off on out over since
    through throughout to toward towards under until up upon with within without
"""
_CONJUNCTIONS_AND_ADVERBS = """
    and or nor but if then than so because although though unless while however
    not no only just also too very again ever never here there now once yet still even
"""

STOP_LIST = frozenset(
    " ".join((_DETERMINERS, _PRONOUNS, _QUESTION_WORDS, _AUXILIARIES, _PREPOSITIONS, _CONJUNCTIONS_AND_ADVERBS)).split()
)


def is_stop_word(term: str) -> bool:
    """Whether an index term is on the list; a typographic apostrophe counts as a plain one."""
    return term.replace("’", "'") in STOP_LIST


Source = Literal["question", "title", "answer", "snippet"]  # the paper's q, τ, α, β


@dataclass(frozen=True, slots=True)
class Term:
    """A term that the agent may refine with: an index term, its idf in `contents`, where it appears."""

    text: str
    idf: float
    sources: frozenset[Source]


@dataclass(frozen=True, slots=True)
class ObservedPassage:
    """One of the best passages: title, words around the reader's answer, the answer, PS."""

    id: str
    title: str
    snippet: str
    answer: str
    score: float


@dataclass(frozen=True, slots=True)
class Observation:
    """o_t: the question, the current refinements, the best passages of the session so far.

    hits      full passages that the current query found, in the engine's order
    terms     Σ_t: what may be used next, in order of appearance: index terms, neither used before nor stop words
    idf       of every index term that appears, also of those that are not offered
    used      terms used before in the session, with any operator, as index terms; none where they may be used again
    seed      for this step's random draws, if the agent makes any
    seen      ids of every passage read so far
    """

    question: str
    refinements: tuple[Refinement, ...]
    passages: tuple[ObservedPassage, ...]
    hits: tuple[Passage, ...]
    terms: tuple[Term, ...]
    idf: Mapping[str, float]
    used: frozenset[str]
    step: int
    steps_left: int
    may_stop: bool
    seed: int
    seen: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """The observation as lines of plain text."""
        lines = [f"Question: {self.question}", *(f"Refinement: {refinement}" for refinement in self.refinements)]
        for number, each in enumerate(self.passages, 1):
            lines.append(f"{number}. {each.title} (PS {each.score:.3f}, answer: {each.answer})")
            lines.append(f"   {each.snippet}")
        return "\n".join(lines)


class Lexicon:
    """An engine's analysis and idf, cached: the same snippets come back step after step.

    A cached text takes some three kilobytes, and each agent of a server has a lexicon.
    """

    def __init__(self, engine: Engine, texts: int = 1 << 13, terms: int = 1 << 15) -> None:
        def analyse(text: str) -> tuple[str, ...]:
            return tuple(engine.analyze(text))

        self.terms: Callable[[str], tuple[str, ...]] = lru_cache(texts)(analyse)
        self.idf: Callable[[str], float] = lru_cache(terms)(lambda term: engine.idf("contents", term))
        # No text has a blank inside a term, so this is the idf of df = 0: a term that the index does not hold.
        self._absent = engine.idf("contents", "no such term")

    def holds(self, term: str) -> bool:
        """Whether some passage has the term."""
        return self.idf(term) < self._absent

    def as_term(self, text: str) -> str:
        """The index term of a refinement's text; several for a phrase, joined by blanks."""
        return " ".join(self.terms(text))


def used_terms(session: Session, lexicon: Lexicon) -> frozenset[str]:
    """The index terms of every refinement made so far, dead ends and undone ones too."""
    actions = (step.action for step in session.steps)
    return frozenset(lexicon.as_term(action.term) for action in actions if isinstance(action, Refinement))


def observe(session: Session, settings: Settings, lexicon: Lexicon) -> Observation:
    """The observation of a session: o_t of `sec:aggregation`.

    Agents see the best passages by PS, as in their training, whatever the order of the session's result.
    """
    passages = tuple(
        ObservedPassage(
            each.passage.id, each.passage.title,
            snippet(each.passage.text, each.reading.start, each.reading.end, settings.snippet),
            each.reading.answer, each.reading.score,
        )
        for each in best_of(session.seen)
    )  # fmt: skip
    sources = _sources(session.query.question, passages, lexicon)
    idf = {term: lexicon.idf(term) for term in sources}
    used = frozenset() if settings.reuse_terms else used_terms(session, lexicon)
    whole = {each.passage.id: each.passage for each in session.seen}
    current = session.current
    step = session.refinements_made
    return Observation(
        question=session.question.question,
        refinements=session.query.refinements,
        passages=passages,
        hits=tuple(whole[hit.id] for hit in current.hits) if current else (),
        terms=tuple(
            Term(term, idf[term], frozenset(places))
            for term, places in sources.items()
            if term not in used and not is_stop_word(term) and lexicon.holds(term)
        ),
        idf=idf,
        used=used,
        step=step,
        steps_left=max(0, settings.steps - step),
        may_stop=settings.allow_stop,
        seed=step_seed(settings.seed, session, step),
        seen=frozenset(whole),
    )


def _sources(question: str, passages: tuple[ObservedPassage, ...], lexicon: Lexicon) -> dict[str, set[Source]]:
    """Every index term of the observation and where it appears, in order of appearance."""
    parts: list[tuple[Source, str]] = [("question", question)]
    for each in passages:
        parts += [("title", each.title), ("answer", each.answer), ("snippet", each.snippet)]
    sources: dict[str, set[Source]] = {}
    for source, text in parts:
        for term in lexicon.terms(text):
            sources.setdefault(term, set()).add(source)
    return sources


def step_seed(seed: int, session: Session, step: int) -> int:
    """The random seed of a step: differs by session and step, independent of the batch."""
    text = f"{seed}\n{session.question.id}\n{session.question.question}\n{step}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little") >> 1
