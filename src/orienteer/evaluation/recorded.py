"""Members of an ensemble that have played already: their actions come from their journals, not from thinking again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from orienteer.agents import Entry
from orienteer.agents.ensemble import Ensemble
from orienteer.session import STOP, Action, Agent, Observation, Record

Memory = Callable[[Entry], Iterable[Record] | None]


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


def remembering(entry: Entry, played: Memory) -> Entry:
    """The entry, an ensemble's members with what they have played; `played` gives a finished journal's records."""
    if not isinstance(entry.agent, Ensemble):
        return entry
    members = []
    for each in entry.agent.members:
        member, records = remembering(each, played), played(each)
        members.append(member if records is None else replace(member, agent=Recorded(member.agent, records)))
    return replace(entry, agent=Ensemble(members, entry.agent.budget))
