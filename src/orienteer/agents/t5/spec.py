"""Agents that write refinements as text: `copynet`, which ships, and `t5=DIR`, each also with a grammar and `+free`.

One machinery plays both; the encoder tells them apart. A T5 is an encoder-decoder that was pretrained as one. The
copynet is the pointer's encoder with a small new decoder that copies words of its source; it was called `t5` once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent
from orienteer.query import GRAMMARS

_WEIGHTS = Path(__file__).parent / "weights"
_OPTIONS = r"(?:-(?P<grammar>G[0-4]))?(?P<free>\+free)?"


def _writer(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.t5.agent import T5Agent
    from orienteer.agents.t5.model_files import kind_of_writer, load_folder

    assert request.folder is not None
    name, files = request.options["grammar"], load_folder(request.folder, "t5")
    called, made = re.split("[-+=[]", request.name)[0], kind_of_writer(files.config)
    if made != called:
        raise AgentNameError(
            f"the agent {request.name!r}: {request.folder} holds a {made}; write {made}{request.name[len(called) :]}"
        )
    agent = T5Agent(files, request.engine, GRAMMARS[name] if name else None, free=bool(request.options["free"]))
    return ConfiguredAgent(request.name, agent, replace(request.settings, snippet=agent.layout.snippet))


COPYNET = AgentSpec(
    "copynet, copynet-G0…G4, copynet-G4+free",
    "each step writes the refinement that a copying decoder finds likeliest; +free is not held to the grammar",
    "reader, checkpoint",
    re.compile(f"copynet{_OPTIONS}"),
    _writer,
    ("copynet", *(f"copynet-{name}" for name in GRAMMARS)),
    Checkpoint("orienteer train copynet", shipped=lambda options: _WEIGHTS),
)

T5 = AgentSpec(
    "t5=DIR, t5-G0…G4=DIR, t5-G4+free=DIR",
    "the same with a pretrained T5 that was trained on Rocchio's sessions; none ships",
    "reader, checkpoint",
    re.compile(f"t5{_OPTIONS}"),
    _writer,
    ("t5", *(f"t5-{name}" for name in GRAMMARS)),
    Checkpoint(
        "orienteer train t5 --base FLAN-T5",
        hint="what was called t5 in earlier versions, and in results recorded by them, is copynet",
    ),
)
