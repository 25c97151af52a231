"""The pointer's names: `pointer`, `pointer-G1`, and without lookahead `pointer-G1-blind`, each also with `=DIR`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent
from orienteer.query import GRAMMARS

_WEIGHTS = Path(__file__).parent / "weights"


def _pointer(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.pointer.agent import PointerAgent
    from orienteer.agents.pointer.model_files import load_folder

    assert request.folder is not None
    files = load_folder(request.folder)
    if request.options.get("blind"):
        files = replace(files, decoding=replace(files.decoding, lookahead=False))
    grammar = GRAMMARS[request.options["grammar"] or files.layout.grammar]
    settings = replace(request.settings, snippet=files.layout.snippet)
    return ConfiguredAgent(request.name, PointerAgent(files, request.engine, grammar), settings)


SPEC = AgentSpec(
    "pointer, pointer-G0…G4",
    "a trained model scores every refinement, looks ahead at what each would find, and takes the most valuable",
    "reader, checkpoint",
    re.compile(r"pointer(?:-(?P<grammar>G[0-4]))?"),
    _pointer,
    ("pointer", *(f"pointer-{name}" for name in GRAMMARS)),
    Checkpoint("orienteer train pointer", shipped=lambda options: _WEIGHTS),
)

BLIND = AgentSpec(
    "pointer-blind, pointer-G0-blind…",
    "control: the same model without lookahead takes the most probable refinement, and never undoes one",
    "reader, checkpoint",
    re.compile(r"pointer(?:-(?P<grammar>G[0-4]))?(?P<blind>-blind)"),
    _pointer,
    ("pointer-blind",),
    Checkpoint("orienteer train pointer", shipped=lambda options: _WEIGHTS),
)
