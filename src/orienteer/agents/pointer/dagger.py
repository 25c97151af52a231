"""DAgger: states that the agent itself reaches, labelled by Rocchio: it learns to go on from its own mistakes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from orienteer.agents.pointer.labels import Label, Moment, label
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import Grammar
from orienteer.reader.cache import CachedReader
from orienteer.reader.protocol import Reader
from orienteer.rocchio.lockstep import Lockstep, _Search
from orienteer.rocchio.notes import Notes
from orienteer.rocchio.plan import Plan, Variant
from orienteer.session import Agent, Environment, Session, Settings

TOGETHER = 32  # questions in lock-step


class StateLabeller(Lockstep):
    """Algorithm 1's choice at any state of any session, not only at those that it reaches itself."""

    def __init__(self, engine: Engine, reader: Reader, grammar: Grammar, plan: Plan) -> None:
        super().__init__(engine, reader, [Variant(grammar, plan.settings.lambda1, plan.settings.lambda2)], plan)

    def label(self, sessions: Sequence[Session]) -> list[Label | None]:
        """None where there is nothing to search: no answer is known, or no passage holds one."""
        [variant], [environment] = self._variants, self._environments
        searches = [
            _Search(place, variant, environment, session, Notes(session.question, self._plan.settings.relevance))
            for place, session in enumerate(sessions)
        ]
        for search in searches:
            if search.session.score is None:
                search.end("no answer")
        self._find_ideals(searches)
        live = [search for search in searches if search.ended is None]
        self._begin_steps(live)
        while wanted := [(s, slots) for s in live if s.step is not None and (slots := s.step.wanted()).size]:
            self._read(wanted)
        return [self._told(search) for search in searches]

    def _told(self, search: _Search) -> Label | None:
        if search.step is None:
            return Label(search.variant.grammar, ()) if search.ended == "best" else None
        winner, now = search.step.winner(), search.session.score
        assert now is not None
        rows = [] if winner is None else [winner, *search.step.runners_up(self._plan.others)]
        reached = [(search.candidates[row].refinement, float(search.step.bound[row])) for row in rows]
        return label(search.variant.grammar, now.total, reached[0] if reached else None, reached[1:])


@dataclass(frozen=True, slots=True)
class Visits:
    """Which states of the agent's sessions are labelled: labelling one costs as much as a step of Rocchio.

    states   of each session, drawn by `seed`; the first state of all is left out, recorded sessions have it
    """

    states: int = 2
    steps: int = 20
    seed: int = 0


def visited(
    environment: Environment, agent: Agent, questions: Sequence[Question], visits: Visits
) -> list[Session]:  # fmt: skip
    """Some states of the sessions that the agent plays, in the questions' order."""
    sessions = environment.open(questions)
    reached: list[list[Session]] = [[] for _ in sessions]
    while places := [place for place, session in enumerate(sessions) if not session.ended]:
        actions = agent.act(environment.observe([sessions[place] for place in places]))
        going = environment.take([sessions[place] for place in places], list(actions))
        for place, session in zip(places, going, strict=True):
            sessions[place] = session
            if not session.ended:
                reached[place].append(session)
    generator = random.Random(f"{visits.seed} {questions[0].id if questions else ''}")
    return [
        session
        for own in reached
        for session in sorted(generator.sample(own, min(visits.states, len(own))), key=lambda s: s.refinements_made)
    ]


def dagger_batches(
    engine: Engine, reader: Reader, agent: Agent, grammar: Grammar, questions: Sequence[Question], snippet: int,
    visits: Visits | None = None, plan: Plan | None = None,
) -> Callable[[int], Iterator[list[Moment]]]:  # fmt: skip
    """Batches of labelled moments for `examples.build`; each depends on its own questions alone."""
    visits = visits or Visits()
    settings = Settings(steps=visits.steps, snippet=snippet)
    plan = replace(plan or Plan(read_budget=200), settings=settings)
    remembered = reader if isinstance(reader, CachedReader) else CachedReader(reader)
    labeller = StateLabeller(engine, remembered, grammar, plan)
    environment = Environment(engine, remembered, settings)

    def batches(done: int) -> Iterator[list[Moment]]:
        for start in range(done * TOGETHER, len(questions), TOGETHER):
            sessions = visited(environment, agent, questions[start : start + TOGETHER], visits)
            found = zip(sessions, environment.observe(sessions), labeller.label(sessions), strict=True)
            yield [Moment(session.question.id, seen, (told,)) for session, seen, told in found if told is not None]

    return batches
