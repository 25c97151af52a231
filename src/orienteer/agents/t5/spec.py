"""The T5 agent's names: `t5`, `t5-G1`, `t5-G1+free`, each also with `=DIR`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent
from orienteer.query import GRAMMARS

_WEIGHTS = Path(__file__).parent / "weights"


def _t5(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.t5.agent import T5Agent
    from orienteer.agents.t5.model_files import load_folder

    assert request.folder is not None
    name = request.options["grammar"]
    files = load_folder(request.folder, "t5")
    agent = T5Agent(files, request.engine, GRAMMARS[name] if name else None, free=bool(request.options["free"]))
    return ConfiguredAgent(request.name, agent, replace(request.settings, snippet=agent.layout.snippet))


SPEC = AgentSpec(
    "t5, t5-G0…G4, t5-G4+free",
    "each step writes the refinement that a trained encoder-decoder finds likeliest; +free is not held to the grammar",
    "reader, checkpoint",
    re.compile(r"t5(?:-(?P<grammar>G[0-4]))?(?P<free>\+free)?"),
    _t5,
    ("t5", *(f"t5-{name}" for name in GRAMMARS)),
    Checkpoint("orienteer train t5", shipped=lambda options: _WEIGHTS),
)
