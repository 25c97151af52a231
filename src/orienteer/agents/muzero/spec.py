"""MuZero's names: `muzero`, `muzero+sims50` for another number of simulations, each also with `=DIR`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import Checkpoint, Entry, Family, Wanted

_WEIGHTS = Path(__file__).parent / "weights"


def _muzero(wanted: Wanted) -> Entry:
    from orienteer.agents.muzero.agent import MuZeroAgent
    from orienteer.agents.muzero.model_files import load_folder

    assert wanted.folder is not None
    files = load_folder(wanted.folder)
    search = files.config.search
    if wanted.found["sims"]:
        search = replace(search, simulations=int(wanted.found["sims"]))
    settings = replace(wanted.settings, snippet=files.config.snippet)
    return Entry(wanted.name, MuZeroAgent(files, wanted.engine, search), settings)


FAMILY = Family(
    "muzero, muzero+simsN",
    "plans each refinement rule by rule with N simulations in a learned model of what queries would do",
    "reader, checkpoint",
    re.compile(r"muzero(?:\+sims(?P<sims>[0-9]{1,4}))?"),
    _muzero,
    ("muzero",),
    Checkpoint("orienteer train muzero", shipped=lambda found: _WEIGHTS),
)
