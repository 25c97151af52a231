"""Agents: the protocol, its check, agents by name, and those that need no training."""

from orienteer.agents.check import AgentContractError, check_agent
from orienteer.agents.registry import agent_names, agent_specs, make_agent, register_agent
from orienteer.agents.spec import (
    AgentNameError,
    AgentRequest,
    AgentSpec,
    Checkpoint,
    CheckpointMissingError,
    ConfiguredAgent,
)
from orienteer.session import Agent

__all__ = [
    "Agent", "AgentContractError", "AgentNameError", "AgentRequest", "AgentSpec", "Checkpoint",
    "CheckpointMissingError", "ConfiguredAgent", "agent_names", "agent_specs", "check_agent", "make_agent",
    "register_agent",
]  # fmt: skip
