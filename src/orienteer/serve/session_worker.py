"""Moves of many sessions at once: the engine, the reader and each agent get one call for all that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.serve.batching import Batcher, OnBatch, together_or_alone
from orienteer.session import Action, Agent, Environment, Lexicon, Observation, Session, Settings
from orienteer.session.agent import ExplainingAgent, StepNotes, check_explanation
from orienteer.session.environment import ended
from orienteer.session.observation import observe

T = TypeVar("T")

_NO_END = 1 << 30
_TABLES = 64  # kept; clients who ask with ever other settings must not fill the memory


@dataclass(frozen=True, slots=True)
class Move:
    """A session opened (`session` is a question), refined by somebody, or by an agent that decides itself.

    `engine` is what the session is played on where that is not the index itself, as for an agent with vectors.
    """

    index: str
    session: Session | Question
    settings: Settings
    action: Action | Agent | None = None
    engine: Engine | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The session after the move, and what the agent noted of it."""

    session: Session
    notes: StepNotes | None = None


@dataclass(frozen=True, slots=True)
class _Decided:
    """What an agent makes of an observation."""

    action: Action
    notes: StepNotes | None = None


class Player:
    """The tables at which sessions are played, one an index, and the one loop that plays them all."""

    def __init__(
        self, engines: Mapping[str, Engine], reader: Reader, together: int, on_batch: OnBatch = lambda size: None
    ) -> None:
        self.engines, self.reader = engines, reader
        self.lexicons = {name: Lexicon(engine) for name, engine in engines.items()}
        self._tables: dict[Hashable, Environment] = {}
        self.batcher: Batcher[Move, Moved] = Batcher(self._play, together, "orienteer-moves", on_batch, _passages)

    async def play(self, move: Move) -> Moved:
        return await self.batcher.do(move)

    def environment(self, index: str, settings: Settings, engine: Engine | None = None) -> Environment:
        """The world of sessions with these settings; it shares its index's remembered words."""
        environment = Environment(engine or self.engines[index], self.reader, settings)
        environment.lexicon = self.lexicons[index]
        return environment

    def _play(self, moves: Sequence[Move]) -> list[Moved | Exception]:
        decided = self._decide(moves)
        results: dict[int, Moved | Exception] = {}
        for places in _groups(range(len(moves)), lambda i: _table(moves[i])).values():
            environment = self._table(moves[places[0]])
            work = [(moves[i], decided[i]) for i in places]
            done = together_or_alone(partial(_carry_out, environment), work)
            results.update(zip(places, done, strict=True))
        return [results[i] for i in range(len(moves))]

    def _table(self, move: Move) -> Environment:
        key = _table(move)
        if key not in self._tables:
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            self._tables[key] = self.environment(move.index, _shared(move.settings), move.engine)
        return self._tables[key]

    def _decide(self, moves: Sequence[Move]) -> list[_Decided | Exception | None]:
        """What each agent does, all its sessions in one call; None where a session is opened."""
        decided: list[_Decided | Exception | None] = [
            None if move.action is None or isinstance(move.action, Agent) else _Decided(move.action) for move in moves
        ]
        agents = {i: move.action for i, move in enumerate(moves) if isinstance(move.action, Agent)}
        for places in _groups(agents, lambda i: id(agents[i])).values():
            agent = agents[places[0]]
            seen = [_observation(moves[i], self.lexicons[moves[i].index]) for i in places]
            for place, each in zip(places, together_or_alone(partial(_act, agent), seen), strict=True):
                decided[place] = each
        return decided


def _passages(move: Move) -> float:
    """How many passages a move may have to read: all hits of a question; of a refinement few are new."""
    return float(move.settings.hits) if isinstance(move.session, Question) else 1.0


def _act(agent: Agent, observations: Sequence[Observation]) -> list[_Decided]:
    if not isinstance(agent, ExplainingAgent):
        return [_Decided(action) for action in agent.act(observations)]
    told = list(agent.act_with_explanations(observations))
    for _, notes in told:
        check_explanation(notes)
    return [_Decided(action, notes) for action, notes in told]


def _observation(move: Move, lexicon: Lexicon) -> Observation:
    assert isinstance(move.session, Session)
    return observe(move.session, move.settings, lexicon)


def _table(move: Move) -> Hashable:
    """Moves with one of these can be played together."""
    return move.index, id(move.engine), _shared(move.settings)


def _shared(settings: Settings) -> Settings:
    """What an environment must know: neither how long a session is nor what an agent sees."""
    return replace(settings, steps=_NO_END, snippet=Settings().snippet, seed=0, allow_stop=False)


def _carry_out(environment: Environment, work: Sequence[tuple[Move, _Decided | Exception | None]]) -> list[Moved]:
    """Opens the new sessions, takes the actions of the others; an agent's failure ends its session."""
    opened = iter(environment.open([move.session for move, _ in work if isinstance(move.session, Question)]))
    taken = iter(environment.step(*_columns([(move.session, d.action) for move, d in work if isinstance(d, _Decided)])))
    moved = []
    for move, decided in work:
        if isinstance(move.session, Question):
            session = next(opened)
        elif isinstance(decided, _Decided):
            session = next(taken)
        else:
            session = ended(move.session, "error", f"the agent failed: {type(decided).__name__}: {decided}")
        if session.ended is None and session.refinements_made >= move.settings.steps:
            session = ended(session, "steps")
        moved.append(Moved(session, decided.notes if isinstance(decided, _Decided) else None))
    return moved


def _columns(rows: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [left for left, _ in rows], [right for _, right in rows]


def _groups(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    groups: dict[Any, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
