"""`AgentSpec`: what the registry knows about one kind of agent: its names, what it needs, how one is made.

A learned kind is one object in its own module:

    SPEC = AgentSpec("mine-G0…G4", "…", "reader, checkpoint", re.compile(r"mine-(?P<grammar>G[0-4])"), make,
                     ("mine-G1",), Checkpoint("train-mine", shipped=lambda options: WEIGHTS / options["grammar"]))

The named groups of the pattern are the agent's options: a name fills them on the command line (`mine-G1`), a keyword
argument fills them in Python (`make_agent("mine", engine, grammar="G1")`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.reader.protocol import Reader
from orienteer.session import Agent, Environment, Settings


class AgentNameError(OrienteerError):
    """A name that no agent has, or options that it does not take."""


class CheckpointMissingError(OrienteerError):
    """An agent whose folder of weights or stored results is not there."""


@dataclass(frozen=True, slots=True)
class ConfiguredAgent:
    """An agent ready to play, with the settings that its name asks for.

    `engine` is set only where the agent searches with another engine than the one it was made for (dense retrieval).
    """

    name: str
    agent: Agent
    settings: Settings
    engine: Engine | None = None

    def environment(self, engine: Engine, reader: Reader, *, budget: int | None = None) -> Environment:
        """The environment of this agent's sessions; each ends once it has read `budget` passages."""
        return Environment(self.engine or engine, reader, self.settings, budget=budget)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What `AgentSpec.make` gets.

    options   by the pattern's group names; None where neither the name nor a keyword argument gives a value
    folder    the checkpoint, known to exist; None where the agent needs none
    """

    name: str
    options: Mapping[str, Any]
    engine: Engine
    settings: Settings
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder that agents of a kind are loaded from.

    made_by   the command that makes one
    shipped   the folder of the shipped one, by the agent's options; None: `make` itself knows where to look
    hint      set where none ships and a folder must be named: what else the user may have meant
    """

    made_by: str
    shipped: Callable[[Mapping[str, Any]], Path] | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One kind of agent.

    names         as they are listed: "copynet-G0…G4"
    about, needs  one line each for `orienteer agents`
    pattern       of its names; named groups are options
    examples      bare names that the page offers and tests play
    checkpoint    None where there is nothing to load, and NAME=DIR is then a mistake
    options       options that are not part of the name, by name; they are given in brackets or as keyword arguments
    sees_answers  the agent is told the answers: what it reaches is headroom, not a result
    """

    names: str
    about: str
    needs: str
    pattern: re.Pattern[str]
    make: Callable[[AgentRequest], ConfiguredAgent]
    examples: tuple[str, ...]
    checkpoint: Checkpoint | None = None
    options: Mapping[str, type] | None = None
    sees_answers: bool = False

    def folder(self, name: str, options: Mapping[str, Any], given: str | None) -> Path | None:
        """The checkpoint of the agent called `name`, known to exist; None where it needs none."""
        bare = re.split(r"[=\[]", name)[0].strip()
        if given == "":
            raise AgentNameError(f"the agent {name!r}: no folder after the equals sign; write {bare}=DIR")
        if given is not None and self.checkpoint is None:
            raise AgentNameError(f"the agent {name!r}: {bare} has nothing to load; leave out {'=' + given!r}")
        if given is not None:
            folder: Path | None = Path(given).expanduser()
        else:
            folder = self.checkpoint.shipped(options) if self.checkpoint and self.checkpoint.shipped else None
        if folder is None and self.checkpoint and self.checkpoint.hint:
            raise CheckpointMissingError(
                f"the agent {name!r}: none ships; {self.checkpoint.hint}; "
                f"make one with `{self.checkpoint.made_by}` and name it: {bare}=DIR"
            )
        if folder is None or folder.is_dir():
            return folder
        assert self.checkpoint is not None
        what = f"no folder {folder}" if given is not None else f"no shipped checkpoint at {folder}"
        raise CheckpointMissingError(
            f"the agent {name!r}: {what}; make one with `{self.checkpoint.made_by}` and name it: {bare}=DIR"
        )
