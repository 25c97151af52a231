"""MuZero's names: `muzero`, `muzero+sims50` for another number of simulations, each also with `=DIR`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent

_WEIGHTS = Path(__file__).parent / "weights"


def _muzero(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.muzero.agent import MuZeroAgent
    from orienteer.agents.muzero.model_files import load_folder

    assert request.folder is not None
    files = load_folder(request.folder)
    search = files.config.search
    if request.options["simulations"]:
        search = replace(search, simulations=int(request.options["simulations"]))
    settings = replace(request.settings, snippet=files.config.snippet)
    return ConfiguredAgent(request.name, MuZeroAgent(files, request.engine, search), settings)


SPEC = AgentSpec(
    "muzero, muzero+simsN",
    "plans each refinement rule by rule with N simulations in a learned model of what queries would do",
    "reader, checkpoint",
    re.compile(r"muzero(?:\+sims(?P<simulations>[0-9]{1,4}))?"),
    _muzero,
    ("muzero",),
    Checkpoint("orienteer train muzero", shipped=lambda options: _WEIGHTS),
)
