"""Agents by name: `bm25+ps`, `prf-idf-t`, `bm25@100+ps`, with options in brackets, `prf-rm3^2[steps=10]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from orienteer.agents.baselines import NoRefinement
from orienteer.agents.prf import OPERATORS, ByAnswer, ByIdf, ByRelevanceModel, Feedback
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.session import Agent, Settings, SettingsError

_MOST_PASSAGES = 10_000


class AgentNameError(OrienteerError):
    """A name that no agent has, or options that it does not take."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An agent ready to play, with the settings that its name asks for."""

    name: str
    agent: Agent
    settings: Settings


@dataclass(frozen=True, slots=True)
class Family:
    """Agents whose names follow one pattern: how they are listed, what they are, what they need."""

    names: str
    about: str
    needs: str
    pattern: re.Pattern[str]
    make: Callable[[re.Match[str], Engine, Settings], tuple[Agent, Settings]]
    examples: tuple[str, ...]


def make_agent(name: str, engine: Engine, settings: Settings | None = None) -> Entry:
    """The agent of this name; options in brackets go before `settings`, and so does what the name itself says."""
    base, options = split_name(name)
    for family in FAMILIES:
        if found := family.pattern.fullmatch(base):
            agent, own = family.make(found, engine, settings or Settings())
            try:
                return Entry(name, agent, own.with_options(options))
            except SettingsError as error:
                raise AgentNameError(f"the agent {name!r}: {error}") from None
    raise _unknown(base)


def agent_names() -> list[str]:
    """Every agent that can be made by its bare name, with the usual N for `bm25@N+ps`."""
    return [name for family in FAMILIES for name in family.examples]


def split_name(name: str) -> tuple[str, Mapping[str, str]]:
    """A name and its options: `prf-idf-t[steps=10;dead_ends=stop]`."""
    base, bracket, rest = name.strip().partition("[")
    if not bracket:
        return base, {}
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
    return base, options


def _bm25(found: re.Match[str], engine: Engine, settings: Settings) -> tuple[Agent, Settings]:
    return NoRefinement(), replace(settings, steps=0, order="engine")


def _bm25_ps(found: re.Match[str], engine: Engine, settings: Settings) -> tuple[Agent, Settings]:
    return NoRefinement(), replace(settings, steps=0)


def _bm25_deep(found: re.Match[str], engine: Engine, settings: Settings) -> tuple[Agent, Settings]:
    depth = int(found["depth"])
    if not 1 <= depth <= _MOST_PASSAGES:
        raise AgentNameError(f"the agent {found[0]!r} would read {depth} passages; expected 1 to {_MOST_PASSAGES}")
    return NoRefinement(), replace(settings, steps=0, hits=depth)


def _feedback(found: re.Match[str], engine: Engine, settings: Settings) -> tuple[Agent, Settings]:
    choose = {"idf": ByIdf, "rm3": ByRelevanceModel, "answer": ByAnswer}[found["by"]](engine)
    operator, field = OPERATORS[found["op"] or "-or"]
    return Feedback(choose, operator, field), settings


_OPS = "|".join(map(re.escape, OPERATORS))

FAMILIES: tuple[Family, ...] = (
    Family("bm25", "the engine's first five passages, in its order", "reader",
           re.compile("bm25"), _bm25, ("bm25",)),
    Family("bm25+ps", "the engine's first five passages, ordered by the passage scorer", "reader",
           re.compile(r"bm25\+ps"), _bm25_ps, ("bm25+ps",)),
    Family("bm25@N+ps", "the best five by the passage scorer of the engine's first N", "reader",
           re.compile(r"bm25@(?P<depth>[0-9]{1,9})\+ps"), _bm25_deep, ("bm25@100+ps",)),
    Family("prf-idfOP", "each step adds the rarest word of the last hits, with the operator OP", "reader",
           re.compile(f"prf-(?P<by>idf)(?P<op>{_OPS})"), _feedback, tuple(f"prf-idf{op}" for op in OPERATORS)),
    Family("prf-rm3OP", "each step adds the word that RM3 weighs highest in the last hits, with OP", "reader",
           re.compile(f"prf-(?P<by>rm3)(?P<op>{_OPS})"), _feedback, tuple(f"prf-rm3{op}" for op in OPERATORS)),
    Family("prf-answer, prf-answerOP", "each step adds a word of the most confident answer not yet used", "reader",
           re.compile(f"prf-(?P<by>answer)(?P<op>{_OPS})?"), _feedback, ("prf-answer",)),
)  # fmt: skip


def _unknown(name: str) -> AgentNameError:
    near = get_close_matches(name, agent_names(), n=3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    kinds = ", ".join(family.names for family in FAMILIES)
    return AgentNameError(
        f"no agent is called {name!r}; {hint}expected one of {kinds}, where OP is one of {' '.join(OPERATORS)}"
    )
