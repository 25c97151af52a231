"""The planner's name: `planner`, with `=DIR` for another pointer, and `[depth=3;beam=4;discount=0.9]`."""

from __future__ import annotations

import re
from dataclasses import replace

from orienteer.agents.planner.search import PlanSettings
from orienteer.agents.pointer.spec import SPEC as POINTER
from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, ConfiguredAgent
from orienteer.errors import OrienteerError


def _planner(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.planner.agent import PlannerAgent

    given = {name: request.options[name] for name in _OPTIONS if name in request.options}
    try:
        settings = PlanSettings(**given)
        if settings.depth > _DEEPEST or settings.beam > _WIDEST:
            raise OrienteerError(
                f"plans of depth {settings.depth} with a beam of {settings.beam}; "
                f"expected at most {_DEEPEST} and {_WIDEST}"
            )
    except OrienteerError as error:
        raise AgentNameError(f"the agent {request.name!r}: {error}") from None
    pointer = POINTER.make(replace(request, options={"grammar": None}))
    if not pointer.agent.has_value_model:  # type: ignore[attr-defined]
        raise OrienteerError("this pointer has no value model for planning; `orienteer train lookahead` adds one")
    return replace(pointer, agent=PlannerAgent(pointer.agent, request.engine, settings))  # type: ignore[arg-type]


_DEEPEST, _WIDEST = 6, 256  # of a name, which a stranger may give a server
_OPTIONS = {"depth": int, "beam": int, "discount": float}
SPEC = AgentSpec(
    "planner", "the pointer's models, with plans of several refinements in the engine itself instead of one; "
    "[depth=2;beam=4;discount=0.9]", "reader, checkpoint", re.compile("planner"), _planner, ("planner",),
    POINTER.checkpoint, options=_OPTIONS,
)  # fmt: skip
