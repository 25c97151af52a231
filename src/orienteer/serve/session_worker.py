"""Steps of many sessions in one batch: engine, reader and each agent get one call for all queued steps.

There are three lanes: for clicks; for questions, and agents whose steps take little time; for the rest. A batch cannot
be interrupted, so in one lane whoever clicks would wait for the whole step of a tree search or for a hundred passages
to be read; beside it, he shares the cores with it. For the same reason the first two have two threads each: what one
user wants does not wait for the batch of one other. How long an agent's steps take is measured as they are taken.
benchmarks/isolation.py measures what a light user notices.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Literal, TypeVar, get_args

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.serve.batching import Batcher, OnBatch, batch_or_one_by_one
from orienteer.serve.memory import deep_size
from orienteer.session import Action, Agent, Environment, Lexicon, Observation, Session, Settings
from orienteer.session.agent import ExplainingAgent, StepNotes, check_explanation
from orienteer.session.environment import ended
from orienteer.session.observation import observe

T = TypeVar("T")
Lane = Literal["slow", "quick", "clicks"]
_THREADS: dict[Lane, int] = {"slow": 1, "quick": 2, "clicks": 2}

_UNLIMITED = 1 << 30
_MAX_ENVIRONMENTS = 64  # kept; clients that vary their settings must not fill the memory
_MAX_KINDS = 4096  # of steps, whose times are known
_QUICK_SECONDS = 0.3  # an agent whose step takes longer goes to the slow lane
_QUICK_PASSAGES = 20  # what a step may read outside the slow lane
_LATEST = 0.5  # the weight of the latest time in the mean


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
    """The session after the step, the agent's notes on it, and the bytes of each."""

    session: Session
    notes: StepNotes | None = None
    size: int = 0
    notes_size: int = 0


@dataclass(frozen=True, slots=True)
class _Decision:
    action: Action
    notes: StepNotes | None = None


class StepTimes:
    """How long a step of each kind takes: seconds, a mean in which the latest count most."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, float] = {}

    def lane(self, job: StepJob) -> Lane:
        """What a person does is bounded by what it reads; on a busy machine its time would say the wrong thing.

        Questions are in the lane of the agents that go on from them, where priorities keep the two in balance.
        """
        if job.settings.hits > _QUICK_PASSAGES:
            return "slow"
        if job.agent is not None:
            return "quick" if self._seconds.get(_kind(job), 0.0) <= _QUICK_SECONDS else "slow"
        return "quick" if isinstance(job.session, Question) else "clicks"

    def add(self, jobs: Sequence[StepJob], seconds: float) -> None:
        """`seconds` is what one of the jobs took. An unknown agent's first time counts in full."""
        if len(self._seconds) >= _MAX_KINDS:
            self._seconds.clear()
        for kind in {_kind(job) for job in jobs}:
            before = self._seconds.get(kind, seconds)
            self._seconds[kind] = _LATEST * seconds + (1 - _LATEST) * before


class SessionWorker:
    """Runs the steps of all sessions, in three lanes."""

    def __init__(
        self, engines: Mapping[str, Engine], reader: Reader, max_batch: int, on_batch: OnBatch = lambda size: None
    ) -> None:
        self.engines, self.reader = engines, reader
        self._lexicons: OrderedDict[int, tuple[Engine, Lexicon]] = OrderedDict()
        self._times = StepTimes()
        self._agent_locks: defaultdict[int, Lock] = defaultdict(Lock)  # an agent acts in one batch at a time
        self._lanes: dict[Lane, Batcher[StepJob, StepResult]] = {
            lane: Batcher(
                partial(self._run_batch, {}),
                max_batch,
                f"orienteer-steps-{lane}",
                on_batch,
                _passages_to_read,
                threads=_THREADS[lane],
            )
            for lane in get_args(Lane)
        }

    async def run(self, job: StepJob) -> StepResult:
        return await self._lanes[self._times.lane(job)].do(job)

    @property
    def alive(self) -> bool:
        return all(lane.alive for lane in self._lanes.values())

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def environment(self, index: str, settings: Settings, engine: Engine | None = None) -> Environment:
        """An environment with these settings; all of one engine share its lexicon."""
        engine = engine or self.engines[index]
        environment = Environment(engine, self.reader, settings)
        environment.lexicon = self._lexicon(engine)
        return environment

    def _lexicon(self, engine: Engine) -> Lexicon:
        if id(engine) not in self._lexicons:
            self._lexicons[id(engine)] = engine, Lexicon(engine)
        _, lexicon = self._lexicons[id(engine)]
        while len(self._lexicons) > _MAX_ENVIRONMENTS:
            self._lexicons.popitem(last=False)
        return lexicon

    def _run_batch(
        self, environments: dict[Hashable, Environment], jobs: Sequence[StepJob]
    ) -> list[StepResult | Exception]:
        """`environments` are those of the lane."""
        jobs = [replace(job, engine=job.engine or self.engines[job.index]) for job in jobs]
        decisions, acting = self._decide(jobs)
        results: dict[int, StepResult | Exception] = {}
        for places in _groups(range(len(jobs)), lambda i: _environment_key(jobs[i])).values():
            environment = self._shared_environment(environments, jobs[places[0]])
            work = [(jobs[i], decisions[i]) for i in places]
            started = time.monotonic()
            results.update(zip(places, batch_or_one_by_one(partial(_take_steps, environment), work), strict=True))
            # Shared by what each was expected to read: a question beside ten clicks took most of the time.
            a_passage = (time.monotonic() - started) / sum(_passages_to_read(jobs[i]) for i in places)
            for i in places:
                self._times.add([jobs[i]], acting.get(i, 0.0) + a_passage * _passages_to_read(jobs[i]))
        return [results[i] for i in range(len(jobs))]

    def _shared_environment(self, environments: dict[Hashable, Environment], job: StepJob) -> Environment:
        key = _environment_key(job)
        if (environment := environments.get(key)) is None:
            if len(environments) >= _MAX_ENVIRONMENTS:
                environments.clear()
            environment = environments[key] = self.environment(job.index, _shared_settings(job.settings), job.engine)
        return environment

    def _decide(self, jobs: Sequence[StepJob]) -> tuple[list[_Decision | Exception | None], dict[int, float]]:
        """The action of each job, one call an agent for all its sessions; None where a session is opened.

        And the seconds that an agent took for each job, by its place.
        """
        acting: dict[int, float] = {}
        decisions: list[_Decision | Exception | None] = [
            None if job.action is None else _Decision(job.action) for job in jobs
        ]
        agents = {i: job.agent for i, job in enumerate(jobs) if job.agent is not None}
        for places in _groups(agents, lambda i: id(agents[i])).values():
            engines = [jobs[i].engine or self.engines[jobs[i].index] for i in places]
            observations = [
                _observation(jobs[i], self._lexicon(engine)) for i, engine in zip(places, engines, strict=True)
            ]
            started = time.monotonic()
            with self._agent_locks[id(agents[places[0]])]:
                results = batch_or_one_by_one(partial(_act, agents[places[0]]), observations)
            for place, result in zip(places, results, strict=True):
                decisions[place] = result
                acting[place] = (time.monotonic() - started) / len(places)
        return decisions, acting


def _kind(job: StepJob) -> Hashable:
    """Steps of one kind take about the same time."""
    opens = isinstance(job.session, Question)
    return job.index, id(job.agent), opens, job.settings.hits


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
        notes = decision.notes if isinstance(decision, _Decision) else None
        results.append(StepResult(session, notes, deep_size(session), deep_size(notes)))
    return results


def _columns(rows: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [left for left, _ in rows], [right for _, right in rows]


def _groups(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    groups: dict[Any, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
