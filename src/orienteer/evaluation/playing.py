"""The sessions of an evaluation, a chunk of questions at a time: played in this process, or by workers.

A worker makes an agent by its name when it first meets it, so that only names and questions travel to it, and finished
lines back. Chunks are written in their order, whoever played them: journals do not tell how many workers there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter, sleep

from orienteer.agents import ConfiguredAgent, make_agent
from orienteer.data.passage import Question
from orienteer.evaluation.errors import EvaluationError
from orienteer.evaluation.journal import Journal, Writing, provenance, write_journal
from orienteer.evaluation.progress import Clock
from orienteer.evaluation.recorded import Memory, remembering
from orienteer.rocchio.generation import Backend
from orienteer.session import Environment, Seconds, Settings, play, record, to_line
from orienteer.session.record import Provenance
from orienteer.workers import in_order, run_chunks

_PATIENCE = 0.5  # seconds between looks at what other processes still play


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers, and the world that each of them opens; see `orienteer.workers` for `workers` and `ray`."""

    backend: Backend
    workers: int = 1
    ray: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One agent's chunk of questions."""

    agent: str
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Played:
    """A chunk's finished lines, and what they were played with."""

    lines: bytes
    seconds: Seconds
    provenance: Provenance


Play = Callable[[Part], Played]


@dataclass(frozen=True, slots=True)
class PlayThere:
    """The work of a worker, before it has opened anything."""

    backend: Backend
    settings: Settings

    def __call__(self) -> Play:
        engine, reader = self.backend.open()
        known: dict[str, tuple[ConfiguredAgent, Environment]] = {}

        def play_part(part: Part) -> Played:
            if part.agent not in known:
                entry = make_agent(part.agent, engine, self.settings)
                known[part.agent] = entry, entry.environment(engine, reader)
            return _play(*known[part.agent], part.questions)

        return play_part


@dataclass(frozen=True, slots=True)
class Player:
    """An agent of the evaluation, its world and its journal."""

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
class Game:
    """What is to be played, and by whom."""

    players: Sequence[Player]
    questions: Sequence[Question]
    chunk: int
    settings: Settings
    crew: Crew | None
    played: Memory = lambda entry: None  # what an agent has played before, if anything

    def results(self, parts: Sequence[Part]) -> Iterator[Played]:
        """What each part gave, in their order."""
        if self.crew is not None:
            work = PlayThere(self.crew.backend, self.settings)
            return in_order(run_chunks(work, parts, workers=self.crew.workers, ray=self.crew.ray))
        by_name = {player.name: player for player in self.players}
        entries = {name: remembering(by_name[name].entry, self.played) for name in {part.agent for part in parts}}
        return (_play(entries[part.agent], by_name[part.agent].environment, part.questions) for part in parts)


def play_all(game: Game, clock: Clock) -> None:
    """Every journal finished, by this process, its workers, or another process that works in the same folder."""
    waiting = list(game.players)
    while waiting:
        # Alone, one agent at a time: another process may take the next. Workers get all there is at once.
        groups = [[player] for player in waiting] if game.crew is None else [waiting]
        still = [player for group in groups for player in _play_group(game, group, clock)]
        if len(still) == len(waiting):
            sleep(_PATIENCE)
        waiting = still


def _play_group(game: Game, group: Sequence[Player], clock: Clock) -> list[Player]:
    """Plays what the journals lack; gives back the players whose journals another process is writing."""
    parts: list[Part] = []
    journals: dict[str, Writing] = {}
    expected = {player.name: player.expected for player in group}
    with ExitStack() as stack:
        for player in group:
            opened = write_journal(player.journal, expected[player.name], game.questions, game.chunk)
            if (writing := stack.enter_context(opened)) is not None:
                journals[player.name] = writing
                clock.tell(player.name, writing.done, 0.0)
                starts = range(writing.done, len(game.questions), game.chunk)
                parts += [Part(player.name, game.questions[start : start + game.chunk]) for start in starts]
        since = perf_counter()
        for part, played in zip(parts, game.results(parts), strict=True):
            _check(played.provenance, expected[part.agent])
            journals[part.agent].append(played.lines, len(part.questions), played.seconds)
            clock.tell(part.agent, journals[part.agent].done, perf_counter() - since)
            since = perf_counter()
    still = [player for player in group if not player.journal.file.exists()]
    for player in group:
        if player not in still:
            clock.tell(player.name, len(game.questions), 0.0)
    return still


def _play(entry: ConfiguredAgent, environment: Environment, questions: Sequence[Question]) -> Played:
    environment.seconds = Seconds()
    [sessions] = play(environment, entry.agent, questions, batch_size=len(questions))
    lines = b"".join(to_line(record(session, environment, entry.name)) for session in sessions)
    return Played(lines, environment.seconds, provenance(entry, environment))


def _check(found: Provenance, expected: Provenance) -> None:
    """A worker that sees another index or reader under the same name must not slip into the figures."""
    for what in ("index", "reader", "settings"):
        was, wanted = getattr(found, what), getattr(expected, what)
        if was != wanted:
            raise EvaluationError(
                f"a worker played with the {what} {was}, this process has {wanted}; "
                "let every worker see the same files by the same path"
            )
