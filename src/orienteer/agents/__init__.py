"""Agents: the protocol, its check, agents by name, and those that need no training."""

from orienteer.agents.check import AgentContractError, check_agent
from orienteer.agents.registry import FAMILIES, agent_names, make_agent
from orienteer.agents.spec import AgentNameError, Checkpoint, CheckpointMissingError, Entry, Family, Wanted
from orienteer.session import Agent

__all__ = [
    "FAMILIES", "Agent", "AgentContractError", "AgentNameError", "Checkpoint", "CheckpointMissingError", "Entry",
    "Family", "Wanted", "agent_names", "check_agent", "make_agent",
]  # fmt: skip
