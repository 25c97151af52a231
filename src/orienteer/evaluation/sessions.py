"""The sessions of an evaluation, a chunk of questions at a time: played in this process, or by workers.

A worker makes an agent by its name when it first meets it, so that only names and questions travel to it, and finished
lines back. Chunks are written in their order: journals do not depend on the number of workers.

An agent that has played already takes its actions from its journal (`RecordedAgent`): the members of an ensemble, and
an agent that is also evaluated with another `order`, which no agent sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import perf_counter, sleep

from orienteer.agents import ConfiguredAgent, make_agent
from orienteer.agents.ensemble import Ensemble
from orienteer.agents.registry import split_name
from orienteer.data.passage import Question
from orienteer.evaluation.journal import EvaluationError, Journal, JournalWriter, provenance, write_journal
from orienteer.rocchio.generation import Backend
from orienteer.session import (
    NO_COST,
    STOP,
    Action,
    Agent,
    AgentCost,
    Environment,
    Observation,
    Record,
    Seconds,
    Settings,
    play,
    record,
    to_line,
)
from orienteer.session.agent import decisions
from orienteer.session.record import Provenance
from orienteer.workers import in_order, run_chunks


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """Sessions of all agents together; `seconds_left` is None until something was timed."""

    agent: str
    done: int
    total: int
    seconds_left: float | None


OnProgress = Callable[[EvaluationProgress], None]


class ProgressClock:
    """Measures work in lists of five passages read, the unit in which agents differ most."""

    def __init__(self, entries: Sequence[ConfiguredAgent], questions: int, progress: OnProgress | None) -> None:
        self._units = {e.name: e.settings.steps + e.settings.hits / 5 for e in entries}
        self._done = dict.fromkeys(self._units, 0)
        self._questions, self._progress_callback = questions, progress
        self._seconds = self._timed = 0.0

    def advance(self, agent: str, done: int, seconds: float) -> None:
        """So many of the agent's questions are played; `seconds` is what those since the last time took."""
        if seconds > 0:
            self._seconds += seconds
            self._timed += (done - self._done[agent]) * self._units[agent]
        self._done[agent] = done
        if self._progress_callback is not None:
            self._progress_callback(self._progress(agent))

    def _progress(self, agent: str) -> EvaluationProgress:
        left = sum((self._questions - self._done[name]) * units for name, units in self._units.items())
        rate = self._seconds / self._timed if self._timed else None
        total = self._questions * len(self._units)
        return EvaluationProgress(agent, sum(self._done.values()), total, None if rate is None else left * rate)


RecordsOf = Callable[[ConfiguredAgent], Iterable[Record] | None]


class RecordedAgent:
    """An agent that does what its records say; the agent itself decides where they say nothing.

    A session costs what its record says, at the first step.
    """

    def __init__(self, agent: Agent, records: Iterable[Record]) -> None:
        self._agent = agent
        self._actions: dict[str, list[Action]] = {}
        self._costs: dict[str, AgentCost] = {}
        for each in records:
            if each.ended not in ("error", "illegal"):
                asked = each.question.question
                self._actions[asked] = [step.action or STOP for step in each.steps[1:]]
                self._costs[asked] = each.cost

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_costs(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        known = [self._known(observation) for observation in observations]
        unknown = [i for i, action in enumerate(known) if action is None]
        decided = iter(decisions(self._agent, [observations[i] for i in unknown]) if unknown else ())
        return [
            next(decided) if action is None else (action, NO_COST if each.step else self._costs[each.question])
            for each, action in zip(observations, known, strict=True)
        ]

    def _known(self, observation: Observation) -> Action | None:
        """A session that ended before has stopped."""
        actions = self._actions.get(observation.question)
        if actions is None:
            return None
        return actions[observation.step] if observation.step < len(actions) else STOP


def with_records(entry: ConfiguredAgent, played: RecordsOf) -> ConfiguredAgent:
    """The entry with what it has played, an ensemble's members too; `played` gives a finished journal's records."""
    if isinstance(entry.agent, Ensemble):
        members = [with_records(each, played) for each in entry.agent.members]
        return replace(entry, agent=Ensemble(members, entry.agent.budget))
    records = played(entry)
    return entry if records is None else replace(entry, agent=RecordedAgent(entry.agent, records))


def play_alike(one: ConfiguredAgent, other: ConfiguredAgent) -> bool:
    """Whether both do the same in every session: the same name and settings, whatever the order."""
    return _without_order(one) == _without_order(other)


def _without_order(entry: ConfiguredAgent) -> tuple[str, dict[str, str], Settings]:
    base, options = split_name(entry.name)
    return base, {k: v for k, v in options.items() if k != "order"}, replace(entry.settings, order="ps")


_PATIENCE = 0.5  # seconds between looks at what other processes still play


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Worker processes, and the backend that each of them opens; see `orienteer.workers` for `workers` and `ray`."""

    backend: Backend
    workers: int = 1
    ray: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One agent's chunk of questions."""

    agent: str
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class PlayedChunk:
    """A chunk's finished lines, and what they were played with; without `seconds` where a journal decided."""

    lines: bytes
    seconds: Seconds | None
    provenance: Provenance


Play = Callable[[Chunk], PlayedChunk]


@dataclass(frozen=True, slots=True)
class PlayChunks:
    """Makes a worker's function: opens the backend, then plays chunk after chunk."""

    backend: Backend
    settings: Settings

    def __call__(self) -> Play:
        engine, reader = self.backend.open()
        known: dict[str, tuple[ConfiguredAgent, Environment]] = {}

        def play_part(part: Chunk) -> PlayedChunk:
            if part.agent not in known:
                entry = make_agent(part.agent, engine, self.settings)
                known[part.agent] = entry, entry.environment(engine, reader)
            return _play(*known[part.agent], part.questions)

        return play_part


@dataclass(frozen=True, slots=True)
class AgentRun:
    """An agent of the evaluation, its environment and its journal."""

    entry: ConfiguredAgent
    environment: Environment
    journal: Journal

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def expected(self) -> Provenance:
        return provenance(self.entry, self.environment)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is to be played, and by whom."""

    runs: Sequence[AgentRun]
    questions: Sequence[Question]
    chunk: int
    settings: Settings
    workers: WorkerConfig | None
    played: RecordsOf = lambda entry: None  # what an agent has played before, if anything

    def results(self, parts: Sequence[Chunk]) -> Iterator[PlayedChunk]:
        """What each part gave, in their order."""
        if self.workers is not None:
            work = PlayChunks(self.workers.backend, self.settings)
            return in_order(run_chunks(work, parts, workers=self.workers.workers, ray=self.workers.ray))
        by_name = {run.name: run for run in self.runs}
        entries = {name: with_records(by_name[name].entry, self.played) for name in {part.agent for part in parts}}
        return (_play(entries[part.agent], by_name[part.agent].environment, part.questions) for part in parts)


def play_all(schedule: Schedule, clock: ProgressClock) -> None:
    """Every journal finished, by this process, its workers, or another process that works in the same folder."""
    waiting = list(schedule.runs)
    while waiting:
        # Alone, one agent at a time: another process may take the next. Workers get all there is at once.
        groups = [[run] for run in waiting] if schedule.workers is None else [waiting]
        still = [run for group in groups for run in _play_group(schedule, group, clock)]
        if len(still) == len(waiting):
            sleep(_PATIENCE)
        waiting = still


def _play_group(schedule: Schedule, group: Sequence[AgentRun], clock: ProgressClock) -> list[AgentRun]:
    """Plays what the journals lack; gives back the runs whose journals another process is writing."""
    parts: list[Chunk] = []
    journals: dict[str, JournalWriter] = {}
    expected = {run.name: run.expected for run in group}
    with ExitStack() as stack:
        for run in group:
            opened = write_journal(run.journal, expected[run.name], schedule.questions, schedule.chunk)
            if (writing := stack.enter_context(opened)) is not None:
                journals[run.name] = writing
                clock.advance(run.name, writing.done, 0.0)
                starts = range(writing.done, len(schedule.questions), schedule.chunk)
                parts += [Chunk(run.name, schedule.questions[start : start + schedule.chunk]) for start in starts]
        since = perf_counter()
        for part, played in zip(parts, schedule.results(parts), strict=True):
            _check(played.provenance, expected[part.agent])
            journals[part.agent].append(played.lines, len(part.questions), played.seconds)
            clock.advance(part.agent, journals[part.agent].done, perf_counter() - since)
            since = perf_counter()
    still = [run for run in group if not run.journal.file.exists()]
    for run in group:
        if run not in still:
            clock.advance(run.name, len(schedule.questions), 0.0)
    return still


def _play(entry: ConfiguredAgent, environment: Environment, questions: Sequence[Question]) -> PlayedChunk:
    environment.seconds = Seconds()
    [sessions] = play(environment, entry.agent, questions, batch_size=len(questions))
    lines = b"".join(to_line(record(session, environment, entry.name)) for session in sessions)
    seconds = None if _is_recorded(entry) else environment.seconds
    return PlayedChunk(lines, seconds, provenance(entry, environment))


def _is_recorded(entry: ConfiguredAgent) -> bool:
    if isinstance(entry.agent, Ensemble):
        return any(map(_is_recorded, entry.agent.members))
    return isinstance(entry.agent, RecordedAgent)


def _check(played: Provenance, expected: Provenance) -> None:
    """A worker that sees another index or reader under the same name must not slip into the figures."""
    for what in ("index", "reader", "settings"):
        was, wanted = getattr(played, what), getattr(expected, what)
        if was != wanted:
            raise EvaluationError(
                f"a worker played with the {what} {was}, this process has {wanted}; "
                "let every worker see the same files by the same path"
            )
