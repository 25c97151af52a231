"""The agents a client may ask for, made once for each index and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orienteer.agents import AgentNameError, AgentSpec, ConfiguredAgent
from orienteer.agents.registry import agent_specs, make_agent, split_name
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.serve.errors import LimitError
from orienteer.serve.limits import Limits
from orienteer.session import Settings, SettingsError

_KEPT = 32  # agents; a learned one holds its weights


@dataclass(frozen=True, slots=True)
class Offer:
    """An agent as a list shows it."""

    name: str
    family: str
    about: str


class Roster:
    """Agents by name. A checkpoint's folder can be named only where the server is started (`own`)."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits, own: Sequence[str] = ()) -> None:
        self._engines, self._limits, self.own = engines, limits, tuple(own)
        self._entries: OrderedDict[tuple[str, str], ConfiguredAgent] = OrderedDict()
        self._lock = threading.Lock()
        self._own_bases = frozenset(split_name(name)[0] for name in own)
        for name in own:  # one that cannot be made is told before anybody asks
            self.entry(next(iter(engines)), name)

    def entry(self, index: str, name: str, steps: int | None = None) -> ConfiguredAgent:
        """The agent, with settings that stay inside the limits; blocks while weights are loaded."""
        base, options = split_name(name)
        if ("=" in base or "(" in base) and base not in self._own_bases:
            raise AgentNameError(
                f"the agent {name!r} names a folder of the server's, or several agents; "
                f"start the server with --agent '{base}' to offer it"
            )
        entry = self._made(index, base)
        settings = entry.settings if steps is None or not entry.settings.steps else replace(entry.settings, steps=steps)
        try:
            settings = settings.with_options(options)
        except SettingsError as error:
            raise AgentNameError(f"the agent {name!r}: {error}") from None
        for what, found, most in (
            ("steps", settings.steps, self._limits.steps),
            ("hits", settings.hits, self._limits.k),
        ):
            if found > most:
                raise LimitError(f"the agent {name!r} would have {found} {what}; this server allows {most}")
        return replace(entry, name=name, settings=settings)

    def offered(self, index: str) -> list[Offer]:
        """Every agent that a bare name gives here; of those with weights or vectors the ones that can be loaded."""
        named = [Offer(name, "own", "named when the server was started") for name in self.own]
        return named + [
            Offer(name, spec.names, spec.about)
            for spec in agent_specs()
            for name in spec.examples
            if not spec.sees_answers and (spec.checkpoint is None or self._loads(index, spec, name))
        ]

    def _loads(self, index: str, spec: AgentSpec, name: str) -> bool:
        match = spec.pattern.fullmatch(name)
        if match is None or spec.checkpoint is None:
            return False
        try:
            if spec.checkpoint.shipped is not None:
                spec.folder(name, match.groupdict(), None)
            else:
                self._made(index, name)
        except OrienteerError:
            return False
        return True

    def _made(self, index: str, base: str) -> ConfiguredAgent:
        key = index, base
        with self._lock:
            if key not in self._entries:
                self._entries[key] = make_agent(base, self._engines[index], Settings())
            self._entries.move_to_end(key)
            while len(self._entries) > _KEPT:
                self._entries.popitem(last=False)
            return self._entries[key]
