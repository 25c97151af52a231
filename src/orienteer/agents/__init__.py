"""Agents: the protocol, its check, agents by name, and those that need no training."""

from orienteer.agents.check import AgentContractError, check_agent
from orienteer.agents.registry import FAMILIES, AgentNameError, Entry, Family, agent_names, make_agent
from orienteer.session import Agent

__all__ = [
    "FAMILIES", "Agent", "AgentContractError", "AgentNameError", "Entry", "Family",
    "agent_names", "check_agent", "make_agent",
]  # fmt: skip
