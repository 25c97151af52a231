"""MuZero's names: `muzero`, and `muzero-paper=DIR` for the paper's own; `+sims50` for another number of simulations."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent

_WEIGHTS = Path(__file__).parent / "weights"


def _muzero(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.muzero.agent import MuZeroAgent
    from orienteer.agents.muzero.model_files import load_folder

    assert request.folder is not None
    files = load_folder(request.folder)
    if request.name.startswith("muzero-paper"):
        if not files.config.is_paper:
            why = "was not trained by --preset paper or paper-small"
        elif not files.has_layers:
            why = "has an h without IDF and PS layers"
        else:
            why = ""
        if why:
            raise AgentNameError(f"the agent {request.name!r}: {request.folder} {why}; write muzero={request.folder}")
    search = files.config.search
    if request.options["simulations"]:
        search = replace(search, simulations=int(request.options["simulations"]))
    settings = replace(request.settings, snippet=files.config.snippet)
    return ConfiguredAgent(request.name, MuZeroAgent(files, request.engine, search), settings)


_SIMULATIONS = r"(?:\+sims(?P<simulations>[0-9]{1,4}))?"

SPEC = AgentSpec(
    "muzero, muzero+simsN",
    "plans each refinement rule by rule with N simulations in a learned model, with the lookahead as its prior",
    "reader, checkpoint",
    re.compile(f"muzero{_SIMULATIONS}"),
    _muzero,
    ("muzero",),
    Checkpoint("orienteer train muzero", shipped=lambda options: _WEIGHTS),
)

PAPER = AgentSpec(
    "muzero-paper=DIR, muzero-paper+simsN=DIR",
    "MuZero as the paper has it: its h, grammar and search, learned from reward alone; none ships",
    "reader, checkpoint",
    re.compile(f"muzero-paper{_SIMULATIONS}"),
    _muzero,
    ("muzero-paper",),
    Checkpoint("orienteer train muzero --preset paper-small", hint="muzero, which ships, plans with a lookahead"),
)
