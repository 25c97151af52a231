"""The T5 agent's names: `t5`, `t5-G1`, `t5-G1+free`, each also with `=DIR`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import Checkpoint, Entry, Family, Wanted
from orienteer.query import GRAMMARS


def _t5(wanted: Wanted) -> Entry:
    from orienteer.agents.t5.agent import T5Agent
    from orienteer.agents.t5.model_files import load_folder

    assert wanted.folder is not None
    name = wanted.found["grammar"]
    files = load_folder(wanted.folder, "t5")
    agent = T5Agent(files, wanted.engine, GRAMMARS[name] if name else None, free=bool(wanted.found["free"]))
    return Entry(wanted.name, agent, replace(wanted.settings, snippet=agent.layout.snippet))


def _shipped(found: re.Match[str]) -> Path:
    return Path(__file__).parent / "weights"


FAMILY = Family(
    "t5, t5-G0…G4, t5-G4+free",
    "each step writes the refinement that a trained encoder-decoder finds likeliest; +free is not held to the grammar",
    "reader, checkpoint",
    re.compile(r"t5(?:-(?P<grammar>G[0-4]))?(?P<free>\+free)?"),
    _t5,
    ("t5", *(f"t5-{name}" for name in GRAMMARS)),
    Checkpoint("orienteer train t5", shipped=_shipped),
)
