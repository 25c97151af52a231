"""Steps of many sessions in one batch: engine, reader and each agent get one call for all queued steps."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.serve.batching import Batcher, OnBatch, batch_or_one_by_one
from orienteer.session import Action, Agent, Environment, Lexicon, Observation, Session, Settings
from orienteer.session.agent import ExplainingAgent, StepNotes, check_explanation
from orienteer.session.environment import ended
from orienteer.session.observation import observe

T = TypeVar("T")

_UNLIMITED = 1 << 30
_MAX_ENVIRONMENTS = 64  # kept; clients that vary their settings must not fill the memory


@dataclass(frozen=True, slots=True)
class StepJob:
    """One step of a session: open it (`session` is a question), take `action`, or take what `agent` decides.

    `engine` is what the session searches; None: the index as it is now.
    """

    index: str
    session: Session | Question
    settings: Settings
    action: Action | None = None
    agent: Agent | None = None
    engine: Engine | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """The session after the step, and the agent's notes on it."""

    session: Session
    notes: StepNotes | None = None


@dataclass(frozen=True, slots=True)
class _Decision:
    action: Action
    notes: StepNotes | None = None


class SessionWorker:
    """Runs the steps of all sessions in one loop."""

    def __init__(
        self, engines: Mapping[str, Engine], reader: Reader, max_batch: int, on_batch: OnBatch = lambda size: None
    ) -> None:
        self.engines, self.reader = engines, reader
        self._lexicons: OrderedDict[int, tuple[Engine, Lexicon]] = OrderedDict()
        self._environments: dict[Hashable, Environment] = {}
        self.batcher: Batcher[StepJob, StepResult] = Batcher(
            self._run_batch, max_batch, "orienteer-steps", on_batch, _passages_to_read
        )

    async def run(self, job: StepJob) -> StepResult:
        return await self.batcher.do(job)

    def environment(self, index: str, settings: Settings, engine: Engine | None = None) -> Environment:
        """An environment with these settings; all of one engine share its lexicon."""
        engine = engine or self.engines[index]
        environment = Environment(engine, self.reader, settings)
        environment.lexicon = self._lexicon(engine)
        return environment

    def _lexicon(self, engine: Engine) -> Lexicon:
        _, lexicon = self._lexicons.setdefault(id(engine), (engine, Lexicon(engine)))
        while len(self._lexicons) > _MAX_ENVIRONMENTS:
            self._lexicons.popitem(last=False)
        return lexicon

    def _run_batch(self, jobs: Sequence[StepJob]) -> list[StepResult | Exception]:
        jobs = [replace(job, engine=job.engine or self.engines[job.index]) for job in jobs]
        decisions = self._decide(jobs)
        results: dict[int, StepResult | Exception] = {}
        for places in _groups(range(len(jobs)), lambda i: _environment_key(jobs[i])).values():
            environment = self._shared_environment(jobs[places[0]])
            work = [(jobs[i], decisions[i]) for i in places]
            results.update(zip(places, batch_or_one_by_one(partial(_take_steps, environment), work), strict=True))
        return [results[i] for i in range(len(jobs))]

    def _shared_environment(self, job: StepJob) -> Environment:
        key = _environment_key(job)
        if key not in self._environments:
            if len(self._environments) >= _MAX_ENVIRONMENTS:
                self._environments.clear()
            self._environments[key] = self.environment(job.index, _shared_settings(job.settings), job.engine)
        return self._environments[key]

    def _decide(self, jobs: Sequence[StepJob]) -> list[_Decision | Exception | None]:
        """The action of each job, one call an agent for all its sessions; None where a session is opened."""
        decisions: list[_Decision | Exception | None] = [
            None if job.action is None else _Decision(job.action) for job in jobs
        ]
        agents = {i: job.agent for i, job in enumerate(jobs) if job.agent is not None}
        for places in _groups(agents, lambda i: id(agents[i])).values():
            engines = [jobs[i].engine or self.engines[jobs[i].index] for i in places]
            observations = [
                _observation(jobs[i], self._lexicon(engine)) for i, engine in zip(places, engines, strict=True)
            ]
            results = batch_or_one_by_one(partial(_act, agents[places[0]]), observations)
            for place, result in zip(places, results, strict=True):
                decisions[place] = result
        return decisions


def _passages_to_read(job: StepJob) -> float:
    """The expected cost of a job: a question reads all its hits, a refinement finds few new ones."""
    return float(job.settings.hits) if isinstance(job.session, Question) else 1.0


def _act(agent: Agent, observations: Sequence[Observation]) -> list[_Decision]:
    if not isinstance(agent, ExplainingAgent):
        return [_Decision(action) for action in agent.act(observations)]
    decisions = [_Decision(action, notes) for action, notes in agent.act_with_explanations(observations)]
    for decision in decisions:
        check_explanation(decision.notes)
    return decisions


def _observation(job: StepJob, lexicon: Lexicon) -> Observation:
    assert isinstance(job.session, Session)
    return observe(job.session, job.settings, lexicon)


def _environment_key(job: StepJob) -> Hashable:
    """Jobs with equal keys share an environment."""
    return job.index, id(job.engine), _shared_settings(job.settings)


def _shared_settings(settings: Settings) -> Settings:
    """The settings that matter to an environment: neither the number of steps nor what an agent observes."""
    return replace(settings, steps=_UNLIMITED, snippet=Settings().snippet, seed=0, allow_stop=False)


def _take_steps(
    environment: Environment, work: Sequence[tuple[StepJob, _Decision | Exception | None]]
) -> list[StepResult]:
    """Opens new sessions and takes the actions of the others; an agent's failure ends its own session."""
    opened = iter(environment.open([job.session for job, _ in work if isinstance(job.session, Question)]))
    taken = iter(environment.step(*_columns([(job.session, d.action) for job, d in work if isinstance(d, _Decision)])))
    results = []
    for job, decision in work:
        if isinstance(job.session, Question):
            session = next(opened)
        elif isinstance(decision, _Decision):
            session = next(taken)
        else:
            session = ended(job.session, "error", f"the agent failed: {type(decision).__name__}: {decision}")
        if session.ended is None and session.refinements_made >= job.settings.steps:
            session = ended(session, "steps")
        results.append(StepResult(session, decision.notes if isinstance(decision, _Decision) else None))
    return results


def _columns(rows: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [left for left, _ in rows], [right for _, right in rows]


def _groups(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    groups: dict[Any, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
