"""An actor's work on real questions: picklable, so that it can be made on any machine that sees the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import QueryGrammar, query_grammar
from orienteer.agents.muzero.guided_exploration import advice_probability
from orienteer.agents.muzero.index_trie import index_words
from orienteer.agents.muzero.model_files import OWN
from orienteer.agents.muzero.pretrained import Base, load_base
from orienteer.agents.muzero.representation import Eyes
from orienteer.agents.muzero.root import Mind
from orienteer.agents.muzero.self_play import Senses, play_episodes
from orienteer.agents.muzero.trajectory import Episode
from orienteer.agents.muzero.tries import Trie
from orienteer.agents.muzero.weight_sync import published
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.session import Environment, Settings


@dataclass(frozen=True, slots=True)
class Task:
    """An actor's chunk: the numbers of its episodes, [first, first + count)."""

    number: int
    first: int
    count: int
    seed: int
    folder: str


@dataclass(frozen=True, slots=True)
class World:
    """Engine, reader, questions and h's parts, opened once for everything in a process."""

    engine: Engine
    reader: Reader
    questions: Sequence[Question]
    base: Base
    eyes: Eyes
    senses: Senses
    grammar: QueryGrammar
    index: Trie
    config: Config

    @classmethod
    def of(
        cls, engine: Engine, reader: Reader, questions: Sequence[Question], base: Base, config: Config, threads: int = 1
    ) -> World:
        tokenizer = base.plain_tokenizer()
        grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
        eyes = Eyes(base.bert, base.tensors, tokenizer, threads=threads)
        senses = Senses.of(tokenizer, engine, eyes, grammar, config, threads)
        index = index_words(engine, senses.spelling)
        return cls(engine, reader, questions, base, eyes, senses, grammar, index, config)

    def environment(self, seed: int) -> Environment:
        training = self.config.training
        settings = Settings(
            steps=training.steps, snippet=self.config.snippet, allow_stop=training.allow_stop, seed=seed
        )  # fmt: skip
        return Environment(self.engine, self.reader, settings)


class Actor:
    """Plays the episodes of tasks with the weights that are newest then."""

    def __init__(self, world: World, keep_rows: bool = False) -> None:
        if not world.questions:
            raise OrienteerError("no questions with answers to play; name a file of questions that have some")
        self._world, self._keep_rows = world, keep_rows
        self._environment: Environment | None = None

    def __call__(self, task: Task) -> list[Episode]:
        world = self._world
        tensors, update = published(Path(task.folder))
        senses, words = self._senses(tensors)
        own = {name.removeprefix(OWN): value for name, value in tensors.items() if name.startswith(OWN)}
        mind = Mind(own, world.config.sizes, words, world.grammar, world.index)
        training = world.config.training
        self._environment = self._environment or world.environment(task.seed)
        return play_episodes(
            self._environment, senses, mind, self._asked(task), task.seed,
            advice=advice_probability(training.advice, training.advice_steps, update), keep_rows=self._keep_rows,
        )  # fmt: skip

    def _senses(self, tensors: dict[str, NDArray[Any]]) -> tuple[Senses, NDArray[np.float32]]:
        """As they were; with new eyes where h is trained too."""
        world = self._world
        seen = {name: value for name, value in tensors.items() if not name.startswith(OWN)}
        if not seen:
            return world.senses, world.eyes.words
        tokenizer = world.base.plain_tokenizer()
        threads = world.senses.threads
        eyes = Eyes(world.base.bert, {**world.base.tensors, **seen}, tokenizer, threads=threads)
        return Senses.of(tokenizer, world.engine, eyes, world.grammar, world.config, threads), eyes.words

    def _asked(self, task: Task) -> list[tuple[int, Question]]:
        """Each question once in every round, in a new order each time."""
        questions = self._world.questions
        asked = []
        for number in range(task.first, task.first + task.count):
            round_, place = divmod(number, len(questions))
            order = np.random.default_rng([task.seed, 4, round_]).permutation(len(questions))
            asked.append((number, questions[int(order[place])]))
        return asked


@dataclass(frozen=True, slots=True)
class MakeActor:
    """Opens index, reader and questions in whichever process the actor lives.

    `only` are the ids of the questions to play, as sessions name them; none: all that have answers.
    """

    index: str
    reader: str | None
    cache: str | None
    questions: tuple[str, ...]
    base: str
    config: Config
    threads: int = 1
    keep_rows: bool = False
    only: frozenset[str] = frozenset()

    def __call__(self) -> Callable[[Task], list[Episode]]:
        return Actor(self.world(), self.keep_rows)

    def world(self) -> World:
        from orienteer.data import read_questions
        from orienteer.engine.open import open_engine
        from orienteer.reader import CachedReader, TrainedReader

        engine = open_engine(Path(self.index), threads=self.threads)
        trained = TrainedReader.from_pretrained(Path(self.reader) if self.reader else None, threads=self.threads)
        reader = CachedReader(trained, disk=Path(self.cache) if self.cache else None)
        found = [
            question for path in self.questions for question in read_questions(Path(path))
            if question.answers and (not self.only or clean(question.id) in self.only)
        ]  # fmt: skip
        return World.of(engine, reader, found, load_base(self.base), self.config, self.threads)
