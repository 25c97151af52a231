"""The agents that a client can name, made once for each index and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from orienteer.agents import AgentNameError, AgentSpec, ConfiguredAgent, agent_specs, make_agent
from orienteer.agents.registry import split_name
from orienteer.engine.protocol import Engine, filtered, fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.serve.errors import LimitError
from orienteer.serve.memory import trim_heap
from orienteer.serve.priority import at_lower_priority
from orienteer.serve.security import Limits
from orienteer.session import Settings, SettingsError
from orienteer.session.spelling import with_spelling

_MAX_AGENTS = 32  # kept; a learned one holds its weights
_MAX_FILTERED = 4  # of them with a filter
_SETTINGS = frozenset(field.name for field in fields(Settings))


@dataclass(frozen=True, slots=True)
class _Key:
    """An agent belongs to the engine it was made for: an index's generation, behind a filter."""

    index: str
    fingerprint: str
    where: str
    base: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AgentListing:
    """An agent as a list shows it."""

    name: str
    family: str
    about: str


class AgentCache:
    """Agents by name. `offered` are named where the server starts, the only place where a name can have a folder."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits, offered: Sequence[str] = ()) -> None:
        self._engines, self._limits, self._offered = engines, limits, tuple(offered)
        self._agents: OrderedDict[_Key, ConfiguredAgent] = OrderedDict()
        self._loadable: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._offered_bases = frozenset(split_name(name)[0] for name in offered)
        for name in offered:  # one that cannot be made is an error at the start
            self.get(self._first_index, name)
        self.listing()  # finds out now, not in a request, which agents can be loaded

    def get(self, index: str, name: str, steps: int | None = None, where: str = "") -> ConfiguredAgent:
        """The agent, with settings inside the limits; blocks while its weights are loaded."""
        base, options = split_name(name)
        agent_options = {key: value for key, value in options.items() if key not in _SETTINGS}
        if name not in self._offered:
            self._check_client_name(name, base, agent_options)
        configured = self._make(index, base, agent_options, where)
        settings = configured.settings
        if steps is not None and settings.steps:
            settings = replace(settings, steps=steps)
        try:
            settings = settings.with_options({key: value for key, value in options.items() if key in _SETTINGS})
        except SettingsError as error:
            raise AgentNameError(f"the agent {name!r}: {error}") from None
        for what, number, limit in (
            ("steps", settings.steps, self._limits.steps),
            ("hits", settings.hits, self._limits.k),
            ("words of a snippet", settings.snippet, self._limits.snippet),
        ):
            if number > limit:
                raise LimitError(f"the agent {name!r} would have {number} {what}; this server allows {limit}")
        return replace(configured, name=name, settings=settings)

    def forget(self, index: str) -> None:
        """The agents of an index that is no longer served."""
        with self._lock:
            for key in [each for each in self._agents if each.index == index]:
                del self._agents[key]

    def listing(self) -> list[AgentListing]:
        """Every agent that its bare name gives; of those with weights or embeddings the ones that can be loaded."""
        offered = [AgentListing(name, "own", "named when the server was started") for name in self._offered]
        return offered + [
            AgentListing(name, spec.names, spec.about)
            for spec in agent_specs()
            for name in spec.examples
            if not spec.sees_answers and (spec.checkpoint is None or self._loads(spec, name))
        ]

    @property
    def _first_index(self) -> str:
        return next(iter(self._engines))

    def _check_client_name(self, name: str, base: str, agent_options: Mapping[str, str]) -> None:
        """A client can neither name a folder nor have several agents loaded, by the name or by a text option."""
        spec = next((spec for spec in agent_specs() if spec.pattern.fullmatch(base)), None)
        kinds = spec.options or {} if spec is not None else {}
        hidden = spec is not None and any(
            key in spec.pattern.groupindex or kinds.get(key) in (str, object) for key in agent_options
        )
        if hidden or (("=" in base or "(" in base) and base not in self._offered_bases):
            raise AgentNameError(
                f"the agent {name!r} names a folder of the server's, or several agents; "
                f"start the server with --agent '{name if hidden else base}' to offer it"
            )

    def _loads(self, spec: AgentSpec, name: str) -> bool:
        if name not in self._loadable:
            self._loadable[name] = self._can_load(spec, name)
        return self._loadable[name]

    def _can_load(self, spec: AgentSpec, name: str) -> bool:
        match = spec.pattern.fullmatch(name)
        if match is None or spec.checkpoint is None:
            return False
        try:
            if spec.checkpoint.shipped is not None:
                spec.folder(name, match.groupdict(), None)
            else:
                self._make(self._first_index, name)
        except OrienteerError:
            return False
        return True

    def _make(
        self, index: str, base: str, options: Mapping[str, str] | None = None, where: str = ""
    ) -> ConfiguredAgent:  # fmt: skip
        engine = self._engines[index]
        key = _Key(index, fingerprint_of(engine), where.strip(), base, tuple(sorted((options or {}).items())))
        with self._lock:
            if key not in self._agents:
                searched = filtered(engine, where)
                made = at_lower_priority(partial(make_agent, base, searched, None, **(options or {})))
                made = replace(made, agent=with_spelling(made.agent, searched))
                # A session goes on in the generation, and behind the filter, in which it began.
                self._agents[key] = made if made.engine is not None else replace(made, engine=searched)
                trim_heap()  # weights are read, converted and copied: half of what loading took is free now
                for other in [each for each in self._agents if each.index == index]:
                    if other.fingerprint != key.fingerprint:
                        del self._agents[other]
            self._agents.move_to_end(key)
            narrowed = [each for each in self._agents if each.where]
            for other in narrowed[: max(0, len(narrowed) - _MAX_FILTERED)]:
                del self._agents[other]
            while len(self._agents) > _MAX_AGENTS:
                self._agents.popitem(last=False)
            return self._agents[key]
