"""Agents by name: `bm25+ps`, `prf-idf-t`, `bm25@100+ps`; `NAME=DIR` for another checkpoint; options in brackets.

`[dense=5]` adds vectors to the first pass of any agent. `copynet-G1=my-weights[steps=10;dead_ends=stop]` has a
checkpoint and two options. In Python options are keyword arguments:
`make_agent("copynet", engine, grammar="G1", checkpoint="my-weights", steps=10)`.

Anybody can add an agent, with `register_agent` or from an installed package (entry points `orienteer.agents`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar

from orienteer.agents import controls, dense, ensemble
from orienteer.agents.baselines import NoRefinement
from orienteer.agents.muzero.spec import PAPER as MUZERO_PAPER
from orienteer.agents.muzero.spec import SPEC as MUZERO
from orienteer.agents.planner.spec import SPEC as PLANNER
from orienteer.agents.pointer.spec import BLIND
from orienteer.agents.pointer.spec import SPEC as POINTER
from orienteer.agents.prf import OPERATORS, ByAnswer, ByIdf, ByRelevanceModel, Feedback
from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, ConfiguredAgent
from orienteer.agents.t5.spec import COPYNET, T5
from orienteer.defaults import ORDER
from orienteer.engine.protocol import Engine
from orienteer.query import GRAMMARS
from orienteer.rocchio.agent import RocchioAgent
from orienteer.rocchio.config import HEADROOM_SNIPPET
from orienteer.session import Agent, Settings, SettingsError

ENTRY_POINTS = "orienteer.agents"
DENSE = "dense"  # the option of every agent: passages by vectors of its first pass
_MOST_PASSAGES = 10_000
_NAME = re.compile(r"[a-z][a-z0-9_.+-]{0,63}")
_SETTINGS = frozenset(field.name for field in fields(Settings))

Make = TypeVar("Make", bound=Callable[..., Agent])


def make_agent(
    name: str,
    engine: Engine,
    settings: Settings | None = None,
    *,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> ConfiguredAgent:
    """The agent of this name, ready to play.

    Args:
      name: as `agent_specs` and `orienteer agents` list them, with options in brackets where there are some.
      engine: what the agent searches with.
      settings: of its sessions, whose passages are ordered by agreement where none are given; the name and the options
        below override them.
      checkpoint: folder of a model other than the shipped one.
      options: of the agent (`grammar="G1"`, `simulations=50`) or of its sessions (`steps=10`, `order="ps"`);
        `dense=5` adds the 5 nearest passages by their vectors to the first hits of every session.
    """
    base, folder, given = _parse(name)
    for spec in agent_specs():
        if match := spec.pattern.fullmatch(base):
            given |= options
            nearest = dense.nearest_of(name, given.pop(DENSE, 0))
            mine = _options_of(name, spec, match, given)
            session = {key: value for key, value in given.items() if key not in mine}
            try:
                settings = _with(settings or Settings(order=ORDER), session)  # before anything is loaded
                path = spec.folder(name, mine, str(checkpoint) if checkpoint is not None else folder)
                made = spec.make(AgentRequest(name, mine, engine, settings, path))
                made = replace(made, settings=_with(made.settings, session))
                return dense.with_first_pass(made, engine, nearest) if nearest else made
            except SettingsError as error:
                raise AgentNameError(f"the agent {name!r}: {error}") from None
    raise _unknown(base)


def register_agent(
    name: str, make: Make | None = None, *, about: str = "", needs: str = "reader", sees_answers: bool = False
) -> Any:
    """Adds an agent of one's own, so that `ask`, `evaluate`, the page and `make_agent` know its name.

    `make` is a class or function that takes the engine and returns an `Agent`. Its further parameters are the agent's
    options: `name[top=3]` on the command line, `make_agent(name, engine, top=3)` in Python. Without `make` this is a
    decorator:

        @register_agent("first-word", about="requires the rarest word of the question")
        class FirstWord:
            def __init__(self, engine, top: int = 1): ...
            def act(self, observations): ...

    Registering a name again replaces the agent; the names of Orienteer's own agents cannot be taken.
    """
    if make is None:
        return lambda decorated: register_agent(name, decorated, about=about, needs=needs, sees_answers=sees_answers)
    if not _NAME.fullmatch(name):
        raise AgentNameError(f"the agent name {name!r}; expected small letters, digits and - _ . +, a letter first")
    if any(spec.pattern.fullmatch(name) for spec in BUILT_IN):
        raise AgentNameError(f"{name!r} is one of Orienteer's own agents; choose another name")
    with _LOCK:
        _REGISTERED[name] = _outside_spec(name, make, about, needs, sees_answers)
    return make


def shipped_agents() -> list[str]:
    """A name of each kind of agent whose model comes with the package."""
    found = []
    for spec in agent_specs():
        shipped = spec.checkpoint.shipped if spec.checkpoint else None
        for name in spec.examples[:1] if shipped is not None else ():
            match = spec.pattern.fullmatch(name)
            if match is not None and shipped is not None and shipped(match.groupdict()).is_dir():
                found.append(name)
    return found


def agent_specs() -> tuple[AgentSpec, ...]:
    """Every kind of agent: Orienteer's own, registered ones, and those of installed packages."""
    with _LOCK:
        _load_entry_points()
        return (*BUILT_IN, *_REGISTERED.values())


def agent_names() -> list[str]:
    """Every agent that can be made by its bare name from nothing but an engine, with the usual N for `bm25@N+ps`."""
    return [name for spec in agent_specs() if spec.checkpoint is None for name in spec.examples]


def sees_answers(name: str) -> bool:
    """Whether the agent, or any member of the ensemble, is told the answers; tables mark it."""
    base, _, _ = _parse(name)
    for spec in agent_specs():
        if match := spec.pattern.fullmatch(base):
            members = match.groupdict().get("members")
            return spec.sees_answers or any(map(sees_answers, ensemble.members_of(members or "")))
    return False


def split_name(name: str) -> tuple[str, Mapping[str, str]]:
    """A name and its options: `prf-idf-t[steps=10;dead_ends=stop]`; a folder stays with the name, `copynet-G1=DIR`."""
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


def with_option(name: str, option: str) -> str:
    """The name with one more option: `pointer[steps=5]` and `dead_ends=stop` are `pointer[steps=5;dead_ends=stop]`."""
    base, options = split_name(name)
    given = [f"{key}={value}" for key, value in options.items()]
    return f"{base}[{';'.join([*given, option.strip()])}]"


def _bm25(request: AgentRequest) -> ConfiguredAgent:
    return ConfiguredAgent(request.name, NoRefinement(), replace(request.settings, steps=0, order="engine"))


def _bm25_ps(request: AgentRequest) -> ConfiguredAgent:
    return ConfiguredAgent(request.name, NoRefinement(), replace(request.settings, steps=0))


def _bm25_deep(request: AgentRequest) -> ConfiguredAgent:
    depth = int(request.options["depth"])
    if not 1 <= depth <= _MOST_PASSAGES:
        raise AgentNameError(f"the agent {request.name!r} would read {depth} passages; expected 1 to {_MOST_PASSAGES}")
    return ConfiguredAgent(request.name, NoRefinement(), replace(request.settings, steps=0, hits=depth))


def _feedback(request: AgentRequest) -> ConfiguredAgent:
    operator, field = OPERATORS[request.options["op"] or "-or"]
    choose = {"idf": ByIdf, "rm3": ByRelevanceModel, "answer": ByAnswer}[request.options["by"]](request.engine, field)
    return ConfiguredAgent(request.name, Feedback(choose, operator, field), request.settings)


def _rocchio(request: AgentRequest) -> ConfiguredAgent:
    grammar = GRAMMARS[request.options["grammar"] or "G4"]
    settings = replace(request.settings, allow_stop=True, snippet=HEADROOM_SNIPPET, order="ps")
    return ConfiguredAgent(request.name, RocchioAgent(grammar), settings)


def _hybrid(request: AgentRequest) -> ConfiguredAgent:
    options = dict.fromkeys(POINTER.pattern.groupindex)
    pointer = POINTER.make(replace(request, options=options, folder=POINTER.folder("pointer", options, None)))
    return dense.with_first_pass(pointer, request.engine, dense.FIRST_PASS, request.folder)


_HYBRID = AgentSpec(
    "hybrid", f"pointer, with sessions that start from BM25's hits and the {dense.FIRST_PASS} nearest by vectors",
    "reader; vectors or runs", re.compile("hybrid"), _hybrid, ("hybrid",), dense.CHECKPOINT,
)  # fmt: skip

_OPS = "|".join(map(re.escape, OPERATORS))

BUILT_IN: tuple[AgentSpec, ...] = (
    AgentSpec("bm25", "the engine's first five passages, in its order", "reader",
           re.compile("bm25"), _bm25, ("bm25",)),
    AgentSpec("bm25+ps", "the engine's first five passages, ordered by the passage scorer", "reader",
           re.compile(r"bm25\+ps"), _bm25_ps, ("bm25+ps",)),
    AgentSpec("bm25@N+ps", "the best five by the passage scorer of the engine's first N", "reader",
           re.compile(r"bm25@(?P<depth>[0-9]{1,9})\+ps"), _bm25_deep, ("bm25@100+ps",)),
    *dense.SPECS,
    _HYBRID,
    AgentSpec("prf-idfOP", "each step adds the rarest word of the last hits, with the operator OP", "reader",
           re.compile(f"prf-(?P<by>idf)(?P<op>{_OPS})"), _feedback, tuple(f"prf-idf{op}" for op in OPERATORS)),
    AgentSpec("prf-rm3OP", "each step adds the word that RM3 weighs highest in the last hits, with OP", "reader",
           re.compile(f"prf-(?P<by>rm3)(?P<op>{_OPS})"), _feedback, tuple(f"prf-rm3{op}" for op in OPERATORS)),
    AgentSpec("prf-answer, prf-answerOP", "each step adds a word of the most confident answer not yet used", "reader",
           re.compile(f"prf-(?P<by>answer)(?P<op>{_OPS})?"), _feedback, ("prf-answer",)),
    AgentSpec("rocchio-G0…G4, rocchio", "headroom: sees the answers and searches the refinements that help most; "
           "rocchio is G4", "reader, answers", re.compile("rocchio(-(?P<grammar>G[0-4]))?"), _rocchio,
           ("rocchio", *(f"rocchio-{name}" for name in GRAMMARS)), sees_answers=True),
    *controls.SPECS,
    BLIND,
    POINTER,
    PLANNER,
    MUZERO,
    MUZERO_PAPER,
    COPYNET,
    T5,
    ensemble.spec(make_agent),
)  # fmt: skip


def _parse(name: str) -> tuple[str, str | None, dict[str, Any]]:
    """A name without folder and options, the folder after its equals sign, the options in its brackets."""
    whole, options = split_name(name)
    # The folders and options inside an ensemble's parentheses are its members'.
    if ensemble.is_whole(whole):
        return whole, None, dict(options)
    base, equals, folder = map(str.strip, whole.partition("="))
    return base, folder if equals else None, dict(options)


def _options_of(name: str, spec: AgentSpec, match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's own options: as its name has them, then as they are given."""
    options: dict[str, Any] = match.groupdict()
    kinds = dict.fromkeys(options, object) | dict(spec.options or {})
    for key, value in given.items():
        if key in kinds and key not in _SETTINGS:
            options[key] = _typed(name, key, value, kinds[key])
        elif key not in _SETTINGS:
            expected = ", ".join(sorted({*kinds, *_SETTINGS}))
            raise AgentNameError(f"the agent {name!r}: unknown option {key!r}; expected one of {expected}")
    return options


def _typed(name: str, key: str, value: Any, kind: type) -> Any:
    """An option as its parameter is annotated; text comes from the command line."""
    if not isinstance(value, str) or kind in (str, object):
        return value
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[value.lower()]
        return kind(value)
    except (KeyError, ValueError, TypeError):
        raise AgentNameError(f"the agent {name!r}: {key} = {value!r}; expected {kind.__name__}") from None


def _with(settings: Settings, options: Mapping[str, Any]) -> Settings:
    text = {key: value for key, value in options.items() if isinstance(value, str)}
    return replace(settings.with_options(text), **{k: v for k, v in options.items() if k not in text})


def _outside_spec(name: str, make: Callable[..., Agent], about: str, needs: str, sees: bool) -> AgentSpec:
    """A spec for a class or function from outside, whose parameters after the engine are options."""
    kinds = _parameters(name, make)

    def made(request: AgentRequest) -> ConfiguredAgent:
        agent = make(request.engine, **{key: request.options[key] for key in kinds if key in request.options})
        if not isinstance(agent, Agent):
            raise AgentNameError(f"the agent {name!r}: {make!r} made a {type(agent).__name__} without a method act()")
        return ConfiguredAgent(request.name, agent, request.settings)

    line = about or (make.__doc__ or "an agent from outside").strip().splitlines()[0]
    return AgentSpec(name, line, needs, re.compile(re.escape(name)), made, (name,), options=kinds, sees_answers=sees)


def _parameters(name: str, make: Callable[..., Agent]) -> dict[str, type]:
    parameters = list(signature(make, eval_str=True).parameters.values())
    if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise AgentNameError(f"the agent {name!r}: {make!r} takes no engine; its first parameter must be one")
    kinds = {}
    for each in parameters[1:]:
        if each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        if each.name in _SETTINGS:
            raise AgentNameError(f"the agent {name!r}: {each.name!r} is a setting of sessions; rename that parameter")
        known = each.annotation if each.annotation in (int, float, bool, str) else type(each.default)
        kinds[each.name] = known if known in (int, float, bool, str) else object
    return kinds


def _load_entry_points() -> None:
    """Agents of installed packages, looked for once. One that cannot be loaded is listed, and says why when played."""
    global _looked_for
    if _looked_for:
        return
    _looked_for = True
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in _REGISTERED:
            continue
        try:
            register_agent(point.name, point.load())
        except Exception as error:  # a stranger's package may fail in any way, and must not take the others with it
            _REGISTERED[point.name] = _broken(point.name, f"{type(error).__name__}: {error}")


def _broken(name: str, why: str) -> AgentSpec:
    def refuse(request: AgentRequest) -> ConfiguredAgent:
        raise AgentNameError(f"the agent {name!r} of an installed package cannot be loaded: {why}")

    return AgentSpec(name, f"cannot be loaded: {why}", "a repair", re.compile(re.escape(name)), refuse, ())


_LOCK = threading.RLock()
_REGISTERED: dict[str, AgentSpec] = {}
_looked_for = False


def _unknown(name: str) -> AgentNameError:
    near = get_close_matches(name, [name for spec in agent_specs() for name in spec.examples], n=3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    kinds = ", ".join(spec.names for spec in agent_specs())
    return AgentNameError(
        f"no agent is called {name!r}; {hint}expected one of {kinds}, where OP is one of {' '.join(OPERATORS)}"
    )
