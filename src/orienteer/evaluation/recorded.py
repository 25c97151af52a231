"""Agents that have played already: their actions come from their journals, not from thinking again.

These are the members of an ensemble, and an agent beside which the same one plays with another `order`: the order is
that of the passages which a session gives, and no agent sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from orienteer.agents import ConfiguredAgent
from orienteer.agents.ensemble import Ensemble
from orienteer.agents.registry import split_name
from orienteer.session import STOP, Action, Agent, Observation, Record, Settings

Memory = Callable[[ConfiguredAgent], Iterable[Record] | None]


class Recorded:
    """An agent that does what its records say; the agent itself decides where they say nothing."""

    def __init__(self, agent: Agent, records: Iterable[Record]) -> None:
        self._agent = agent
        self._actions: dict[str, list[Action]] = {
            record.question.question: [step.action or STOP for step in record.steps[1:]]
            for record in records
            if record.ended not in ("error", "illegal")
        }

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        known = [self._known(observation) for observation in observations]
        unknown = [i for i, action in enumerate(known) if action is None]
        decided = iter(self._agent.act([observations[i] for i in unknown]) if unknown else ())
        return [next(decided) if action is None else action for action in known]

    def _known(self, observation: Observation) -> Action | None:
        """A session that ended before has stopped."""
        actions = self._actions.get(observation.question)
        if actions is None:
            return None
        return actions[observation.step] if observation.step < len(actions) else STOP


def remembering(entry: ConfiguredAgent, played: Memory) -> ConfiguredAgent:
    """The entry with what it has played, an ensemble's members too; `played` gives a finished journal's records."""
    if isinstance(entry.agent, Ensemble):
        members = [remembering(each, played) for each in entry.agent.members]
        return replace(entry, agent=Ensemble(members, entry.agent.budget))
    records = played(entry)
    return entry if records is None else replace(entry, agent=Recorded(entry.agent, records))


def play_alike(one: ConfiguredAgent, other: ConfiguredAgent) -> bool:
    """Whether both do the same in every session: the same name and settings, whatever the order."""
    return _without_order(one) == _without_order(other)


def _without_order(entry: ConfiguredAgent) -> tuple[str, dict[str, str], Settings]:
    base, options = split_name(entry.name)
    return base, {k: v for k, v in options.items() if k != "order"}, replace(entry.settings, order="ps")
