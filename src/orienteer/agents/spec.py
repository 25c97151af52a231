"""A family of agents: how its names look, what they need, and how one is made. `registry` lists the families.

A learned family is one object in its own module:

    FAMILY = Family("t5-G0…G4", "…", "reader, checkpoint", re.compile(r"t5-(?P<grammar>G[0-4])"), make, ("t5-G1",),
                    Checkpoint("orienteer train t5", shipped=lambda found: WEIGHTS / found["grammar"]))

`make` gets the folder of `NAME=DIR`, or the shipped one, and may trust that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.reader.protocol import Reader
from orienteer.session import Agent, Environment, Settings


class AgentNameError(OrienteerError):
    """A name that no agent has, or options that it does not take."""


class CheckpointMissingError(OrienteerError):
    """An agent whose folder of weights or stored results is not there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An agent ready to play, with the settings that its name asks for.

    `engine` is what it searches with where that is not the engine that the others get.
    """

    name: str
    agent: Agent
    settings: Settings
    engine: Engine | None = None

    def environment(self, engine: Engine, reader: Reader) -> Environment:
        """The world that this agent plays in."""
        return Environment(self.engine or engine, reader, self.settings)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a name asks for: how it matched, its folder, and what an agent is made for."""

    name: str
    found: re.Match[str]
    engine: Engine
    settings: Settings
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder that agents of a family are loaded from.

    made_by   the command that makes one
    shipped   where that of a bare name lies; None: the family itself knows where to look
    """

    made_by: str
    shipped: Callable[[re.Match[str]], Path] | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """Agents whose names follow one pattern: how they are listed, what they are, what they need.

    `checkpoint` is None where there is nothing to load, and NAME=DIR is then a mistake. What an agent that sees the
    answers reaches is the headroom of the others, no result of its own.
    """

    names: str
    about: str
    needs: str
    pattern: re.Pattern[str]
    make: Callable[[Wanted], Entry]
    examples: tuple[str, ...]
    checkpoint: Checkpoint | None = None
    sees_answers: bool = False

    def folder(self, name: str, found: re.Match[str], given: str | None) -> Path | None:
        """The folder of the agent called `name`, known to exist; None where it needs none."""
        if given == "":
            raise AgentNameError(f"the agent {name!r}: no folder after the equals sign; write {found[0]}=DIR")
        if given is not None and self.checkpoint is None:
            raise AgentNameError(f"the agent {name!r}: {found[0]} has nothing to load; leave out {'=' + given!r}")
        if given is not None:
            folder: Path | None = Path(given).expanduser()
        else:
            folder = self.checkpoint.shipped(found) if self.checkpoint and self.checkpoint.shipped else None
        if folder is None or folder.is_dir():
            return folder
        assert self.checkpoint is not None
        what = f"no folder {folder}" if given is not None else f"no shipped checkpoint at {folder}"
        raise CheckpointMissingError(
            f"the agent {name!r}: {what}; make one with `{self.checkpoint.made_by}` and name it: {found[0]}=DIR"
        )
