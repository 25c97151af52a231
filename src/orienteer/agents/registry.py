"""Agents by name: `bm25+ps`, `prf-idf-t`, `bm25@100+ps`; `NAME=DIR` for another checkpoint; options in brackets.

`t5-G1=my-checkpoint[steps=10;dead_ends=stop]` has all three.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from orienteer.agents import dense, ensemble
from orienteer.agents.baselines import NoRefinement
from orienteer.agents.muzero.spec import FAMILY as MUZERO
from orienteer.agents.pointer.spec import FAMILY as POINTER
from orienteer.agents.prf import OPERATORS, ByAnswer, ByIdf, ByRelevanceModel, Feedback
from orienteer.agents.spec import AgentNameError, Checkpoint, CheckpointMissingError, Entry, Family, Wanted
from orienteer.agents.t5.spec import FAMILY as T5
from orienteer.engine.protocol import Engine
from orienteer.query import GRAMMARS
from orienteer.rocchio.agent import RocchioAgent
from orienteer.rocchio.config import HEADROOM_SNIPPET
from orienteer.session import Settings, SettingsError

__all__ = [
    "FAMILIES", "AgentNameError", "Checkpoint", "CheckpointMissingError", "Entry", "Family", "Wanted",
    "agent_names", "make_agent", "sees_answers", "split_name",
]  # fmt: skip

_MOST_PASSAGES = 10_000


def make_agent(name: str, engine: Engine, settings: Settings | None = None) -> Entry:
    """The agent of this name; options in brackets go before `settings`, and so does what the name itself says."""
    settings = settings or Settings()
    whole, options = split_name(name)
    # The folders and options inside an ensemble's parentheses are its members'.
    base, equals, given = (whole, "", "") if ensemble.is_whole(whole) else map(str.strip, whole.partition("="))
    for family in FAMILIES:
        if found := family.pattern.fullmatch(base):
            folder = family.folder(name, found, given if equals else None)
            try:
                settings.with_options(options)  # before anything is loaded
                entry = family.make(Wanted(name, found, engine, settings, folder))
                return replace(entry, settings=entry.settings.with_options(options))
            except SettingsError as error:
                raise AgentNameError(f"the agent {name!r}: {error}") from None
    raise _unknown(base)


def agent_names() -> list[str]:
    """Every agent that can be made by its bare name from nothing but an engine, with the usual N for `bm25@N+ps`."""
    return [name for family in FAMILIES if family.checkpoint is None for name in family.examples]


def sees_answers(name: str) -> bool:
    """Whether the agent, or any member of the ensemble, is told the answers; tables mark it."""
    whole, _ = split_name(name)
    base = whole if ensemble.is_whole(whole) else whole.partition("=")[0].strip()
    for family in FAMILIES:
        if found := family.pattern.fullmatch(base):
            members = found.groupdict().get("members")
            return family.sees_answers or any(map(sees_answers, ensemble.members_of(members or "")))
    return False


def split_name(name: str) -> tuple[str, Mapping[str, str]]:
    """A name and its options: `prf-idf-t[steps=10;dead_ends=stop]`; a folder stays with the name, `t5-G1=DIR`."""
    name = name.strip()
    if ensemble.is_whole(name):
        return name, {}
    # The last bracket where the name ends in one: a folder may have brackets of its own.
    base, bracket, rest = name.rpartition("[") if name.endswith("]") else name.partition("[")
    if not bracket:
        return name, {}
    options: dict[str, str] = {}
    if not rest.endswith("]"):
        raise AgentNameError(f"the agent {name!r}: an open bracket; write name[option=value;option=value]")
    for part in filter(None, map(str.strip, rest[:-1].split(";"))):
        key, equals, value = map(str.strip, part.partition("="))
        if not equals or not value:
            raise AgentNameError(f"the agent {name!r}: {part!r} is not an option; write option=value")
        if key in options:
            raise AgentNameError(f"the agent {name!r}: {key} is given twice")
        options[key] = value
    return base.strip(), options


def _bm25(wanted: Wanted) -> Entry:
    return Entry(wanted.name, NoRefinement(), replace(wanted.settings, steps=0, order="engine"))


def _bm25_ps(wanted: Wanted) -> Entry:
    return Entry(wanted.name, NoRefinement(), replace(wanted.settings, steps=0))


def _bm25_deep(wanted: Wanted) -> Entry:
    depth = int(wanted.found["depth"])
    if not 1 <= depth <= _MOST_PASSAGES:
        raise AgentNameError(f"the agent {wanted.name!r} would read {depth} passages; expected 1 to {_MOST_PASSAGES}")
    return Entry(wanted.name, NoRefinement(), replace(wanted.settings, steps=0, hits=depth))


def _feedback(wanted: Wanted) -> Entry:
    choose = {"idf": ByIdf, "rm3": ByRelevanceModel, "answer": ByAnswer}[wanted.found["by"]](wanted.engine)
    operator, field = OPERATORS[wanted.found["op"] or "-or"]
    return Entry(wanted.name, Feedback(choose, operator, field), wanted.settings)


def _rocchio(wanted: Wanted) -> Entry:
    grammar = GRAMMARS[wanted.found["grammar"] or "G4"]
    settings = replace(wanted.settings, allow_stop=True, snippet=HEADROOM_SNIPPET)
    return Entry(wanted.name, RocchioAgent(grammar), settings)


_OPS = "|".join(map(re.escape, OPERATORS))

FAMILIES: tuple[Family, ...] = (
    Family("bm25", "the engine's first five passages, in its order", "reader",
           re.compile("bm25"), _bm25, ("bm25",)),
    Family("bm25+ps", "the engine's first five passages, ordered by the passage scorer", "reader",
           re.compile(r"bm25\+ps"), _bm25_ps, ("bm25+ps",)),
    Family("bm25@N+ps", "the best five by the passage scorer of the engine's first N", "reader",
           re.compile(r"bm25@(?P<depth>[0-9]{1,9})\+ps"), _bm25_deep, ("bm25@100+ps",)),
    *dense.FAMILIES,
    Family("prf-idfOP", "each step adds the rarest word of the last hits, with the operator OP", "reader",
           re.compile(f"prf-(?P<by>idf)(?P<op>{_OPS})"), _feedback, tuple(f"prf-idf{op}" for op in OPERATORS)),
    Family("prf-rm3OP", "each step adds the word that RM3 weighs highest in the last hits, with OP", "reader",
           re.compile(f"prf-(?P<by>rm3)(?P<op>{_OPS})"), _feedback, tuple(f"prf-rm3{op}" for op in OPERATORS)),
    Family("prf-answer, prf-answerOP", "each step adds a word of the most confident answer not yet used", "reader",
           re.compile(f"prf-(?P<by>answer)(?P<op>{_OPS})?"), _feedback, ("prf-answer",)),
    Family("rocchio-G0…G4, rocchio", "headroom: sees the answers and searches the refinements that help most; "
           "rocchio is G4", "reader, answers", re.compile("rocchio(-(?P<grammar>G[0-4]))?"), _rocchio,
           ("rocchio", *(f"rocchio-{name}" for name in GRAMMARS)), sees_answers=True),
    POINTER,
    MUZERO,
    T5,
    ensemble.family(make_agent),
)  # fmt: skip


def _unknown(name: str) -> AgentNameError:
    near = get_close_matches(name, [name for family in FAMILIES for name in family.examples], n=3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    kinds = ", ".join(family.names for family in FAMILIES)
    return AgentNameError(
        f"no agent is called {name!r}; {hint}expected one of {kinds}, where OP is one of {' '.join(OPERATORS)}"
    )
