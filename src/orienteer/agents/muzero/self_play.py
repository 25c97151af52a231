"""Self-play: batches of episodes with tree search, guided exploration, reanalysis, and the actors of a run.

Guided exploration: some episodes may use only terms that the ideal query would promote (Σ↑), so that random exploration
finds good refinements sooner. Actors are picklable, so that they can be created on any machine that sees the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import STEPS_LEFT, QueryGrammar, query_grammar
from orienteer.agents.muzero.model_files import NETWORKS, PretrainedEncoder, load_pretrained, published
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.planning import PlannedStep, plan_steps
from orienteer.agents.muzero.replay import Trajectory, TrajectoryStep, make_step
from orienteer.agents.muzero.representation import (
    Encoder,
    ObservationPipeline,
    TokenizedObservation,
    below_undo_threshold,
)
from orienteer.agents.muzero.root import root_state
from orienteer.agents.muzero.tries import LocalTries, TermTokenizer, Trie, local_tries, vocabulary_trie
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS, Refinement
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.rocchio.vocabulary import Vocabulary, Word, ideal_observation, ideal_queries
from orienteer.session import UNDO, Action, Environment, Session, Settings, Term
from orienteer.session.score import reward

_RAREST = 100  # terms of the ideal observation, as Rocchio's N


class IdealTerms:
    """Σ_*, the terms of the ideal observation of a question; an environment searches and reads for it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._vocabulary = Vocabulary(environment.engine)

    def ideals(self, sessions: Sequence[Session]) -> list[frozenset[Word] | None]:
        """Σ_* of each session just opened; None where no ideal query has hits."""
        refinements: list[tuple[int, Refinement]] = []
        for position, session in enumerate(sessions):
            queries = ideal_queries(session.question, self._environment.lexicon)
            if queries and not session.ended:
                refinements.append((position, queries[0].refinements[0]))
        # An ideal query is a refinement like any other: the session's last step has its hits.
        stepped = self._environment.step(
            [sessions[position] for position, _ in refinements], [action for _, action in refinements]
        )
        ideals: list[frozenset[Word] | None] = [None] * len(sessions)
        for (position, _), session in zip(refinements, stepped, strict=True):
            ideals[position] = self._sigma(session.question, session)
        return ideals

    def _sigma(self, question: Question, session: Session) -> frozenset[Word] | None:
        hits = {hit.id for hit in session.steps[-1].hits}
        seen = [each for each in session.seen if each.passage.id in hits]
        if not seen:
            return None
        ideal = ideal_observation(question, seen, self._environment.settings, self._environment.lexicon)
        return frozenset(self._vocabulary.sigma(ideal, _RAREST).words)


def promoted_terms(terms: Sequence[Term], ideal: frozenset[Word]) -> list[bool]:
    """Which terms are Σ↑ = Σ_t ∩ Σ_*, in whichever field; all others are Σ↓."""
    texts = {word.term for word in ideal}
    return [term.text in texts for term in terms]


def guided_probability(start: float, steps: int, update: int) -> float:
    """Falls linearly from `start` to 0 over `steps` updates."""
    return max(0.0, start * (1 - update / steps)) if steps > 0 else 0.0


@dataclass(slots=True)
class _Game:
    """An episode that is being played."""

    number: int
    session: Session
    draw: np.random.Generator
    ideal: frozenset[Word] | None
    guided: bool
    steps: list[TrajectoryStep]


def play_episodes(
    environment: Environment,
    pipeline: ObservationPipeline,
    networks: Networks,
    questions: Sequence[tuple[int, Question]],
    seed: int,
    *,
    guided_share: float = 0.0,
    keep_rows: bool = False,
) -> list[Trajectory]:
    """One episode per (episode number, question): the number and the seed determine all randomness."""
    sessions = environment.open([question for _, question in questions])
    draws = [np.random.default_rng([seed, number]) for number, _ in questions]
    guided = [draw.random() < guided_share for draw in draws]
    ideals = _ideals(environment, sessions, guided)
    games = [
        _Game(number, session, draw, ideal, ideal is not None, [])
        for (number, _), session, draw, ideal in zip(questions, sessions, draws, ideals, strict=True)
    ]
    for _ in range(pipeline.config.training.episode_length):
        active = [game for game in games if not game.session.ended]
        if not active:
            break
        _play_step(environment, pipeline, networks, active, keep_rows)
    return [_trajectory(game) for game in games]


def _play_step(
    environment: Environment, pipeline: ObservationPipeline, networks: Networks, games: Sequence[_Game], keep_rows: bool
) -> None:
    """Plays a step of every game; an undo, wherever the agent would undo, is not kept as a step."""
    config = pipeline.config
    observations = environment.observe([game.session for game in games])
    encoded_observations = pipeline.encode(observations)
    playing = [
        position
        for position, (observation, (_, encoded)) in enumerate(zip(observations, encoded_observations, strict=True))
        if not (observation.refinements and below_undo_threshold(encoded, config))
    ]
    tries = {
        position: _tries(encoded_observations[position][0], pipeline.term_tokenizer, games[position])
        for position in playing
    }
    histories = {
        position: pipeline.action_history(observations[position].refinements, config.networks.history)
        for position in playing
    }
    roots = []
    for position in playing:
        (tokenized, encoded), observation = encoded_observations[position], observations[position]
        steps_left, may_stop = observation.steps_left, observation.may_stop
        roots.append(
            root_state(networks, encoded, tokenized.terms, tries[position], histories[position], steps_left, may_stop)
        )
    plans = plan_steps(
        networks, roots, config.search, [games[position].draw for position in playing], config.training.temperature,
        threads=pipeline.threads, together=config.training.recurrent_batch,
    )  # fmt: skip
    actions: list[Action] = [UNDO] * len(games)
    for position, plan in zip(playing, plans, strict=True):
        actions[position] = plan.action(encoded_observations[position][0].terms)
    sessions = [game.session for game in games]
    for game, session in zip(games, environment.step(sessions, actions), strict=True):
        game.session = session
    for position, plan, root in zip(playing, plans, roots, strict=True):
        game, (tokenized, encoded) = games[position], encoded_observations[position]
        if plan.actions:
            step_reward = _reward(sessions[position], game.session, plan, config)
            steps_left = int(root.grammar_state[STEPS_LEFT])
            game.steps.append(
                make_step(
                    tokenized,
                    encoded,
                    tries[position],
                    histories[position],
                    plan,
                    step_reward,
                    steps_left,
                    root.may_stop,
                    keep_rows,
                )
            )


def _ideals(
    environment: Environment, sessions: Sequence[Session], guided: Sequence[bool]
) -> list[frozenset[Word] | None]:
    ideals: list[frozenset[Word] | None] = [None] * len(sessions)
    positions = [position for position, wanted in enumerate(guided) if wanted]
    if positions:
        terms = IdealTerms(environment).ideals([sessions[position] for position in positions])
        for position, ideal in zip(positions, terms, strict=True):
            ideals[position] = ideal
    return ideals


def _tries(tokenized: TokenizedObservation, term_tokenizer: TermTokenizer, game: _Game) -> LocalTries:
    wanted = None if game.ideal is None else promoted_terms(tokenized.terms, game.ideal)
    return local_tries(tokenized.terms, term_tokenizer, wanted)


def _reward(was: Session, now: Session, plan: PlannedStep, config: Config) -> float:
    """The reward of a step: the gain in score of its query; 0 for stopping."""
    if plan.word < 0 or len(now.steps) == len(was.steps):
        return 0.0
    last = now.steps[-1]
    if last.score is None or was.score is None:
        return 0.0
    return reward(last.score, was.score) - (config.training.empty_penalty if last.dead_end else 0.0)


def _trajectory(game: _Game) -> Trajectory:
    session = game.session
    first, last = session.steps[0].score if session.steps else None, session.score
    return Trajectory(
        game.number, tuple(game.steps), session.ended or "", first.total if first else 0.0,
        last.total if last else 0.0, sum(step.dead_end for step in session.steps[1:]), game.guided,
    )  # fmt: skip


def reanalyse(steps: Sequence[TrajectoryStep], networks: Networks, config: Config, seed: int) -> list[TrajectoryStep]:
    """Old steps with the search policies and values of newer weights along the same actions (MuZero Reanalyze)."""
    roots = [
        root_state(
            networks, step.encoded, step.term_sources, step.tries, step.history.tolist(), step.steps_left, step.may_stop
        )
        for step in steps
    ]
    draws = [np.random.default_rng([seed, position]) for position in range(len(steps))]
    plans = plan_steps(
        networks, roots, replace(config.search, noise_share=0.0), draws, along=[step.actions.tolist() for step in steps]
    )
    return [step.with_new_search(plan) for step, plan in zip(steps, plans, strict=True)]


@dataclass(frozen=True, slots=True)
class ActorTask:
    """A chunk of episodes for an actor: their numbers are [first, first + count)."""

    number: int
    first: int
    count: int
    seed: int
    folder: str


@dataclass(frozen=True, slots=True)
class SelfPlayContext:
    """Engine, reader, questions and encoder, opened once per process."""

    engine: Engine
    reader: Reader
    questions: Sequence[Question]
    base: PretrainedEncoder
    encoder: Encoder
    pipeline: ObservationPipeline
    grammar: QueryGrammar
    index: Trie
    config: Config

    @classmethod
    def of(
        cls,
        engine: Engine,
        reader: Reader,
        questions: Sequence[Question],
        base: PretrainedEncoder,
        config: Config,
        threads: int = 1,
    ) -> SelfPlayContext:
        tokenizer = base.plain_tokenizer()
        grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
        encoder = Encoder(base.bert, base.tensors, tokenizer, threads=threads)
        pipeline = ObservationPipeline.create(tokenizer, engine, encoder, grammar, config, threads)
        index = vocabulary_trie(engine, pipeline.term_tokenizer)
        return cls(engine, reader, questions, base, encoder, pipeline, grammar, index, config)

    def environment(self, seed: int) -> Environment:
        training = self.config.training
        settings = Settings(
            steps=training.steps, snippet=self.config.snippet, allow_stop=training.allow_stop, seed=seed
        )  # fmt: skip
        return Environment(self.engine, self.reader, settings)


class Actor:
    """Plays the episodes of tasks with the newest published weights."""

    def __init__(self, context: SelfPlayContext, keep_rows: bool = False) -> None:
        if not context.questions:
            raise OrienteerError("no questions with answers to play; name a file of questions that have some")
        self._context, self._keep_rows = context, keep_rows
        self._environment: Environment | None = None

    def __call__(self, task: ActorTask) -> list[Trajectory]:
        context = self._context
        tensors, update = published(Path(task.folder))
        pipeline, words = self._pipeline(tensors)
        of_networks = {
            name.removeprefix(NETWORKS): value for name, value in tensors.items() if name.startswith(NETWORKS)
        }
        networks = Networks(of_networks, context.config.networks, words, context.grammar, context.index)
        training = context.config.training
        self._environment = self._environment or context.environment(task.seed)
        return play_episodes(
            self._environment, pipeline, networks, self._questions_of(task), task.seed,
            guided_share=guided_probability(training.guided_share, training.guided_updates, update),
            keep_rows=self._keep_rows,
        )  # fmt: skip

    def _pipeline(self, tensors: dict[str, NDArray[Any]]) -> tuple[ObservationPipeline, NDArray[np.float32]]:
        """Pipeline and word embeddings: as opened, or with the newest encoder where h is trained too."""
        context = self._context
        seen = {name: value for name, value in tensors.items() if not name.startswith(NETWORKS)}
        if not seen:
            return context.pipeline, context.encoder.word_embeddings
        tokenizer = context.base.plain_tokenizer()
        threads = context.pipeline.threads
        encoder = Encoder(context.base.bert, {**context.base.tensors, **seen}, tokenizer, threads=threads)
        return ObservationPipeline.create(
            tokenizer, context.engine, encoder, context.grammar, context.config, threads
        ), encoder.word_embeddings

    def _questions_of(self, task: ActorTask) -> list[tuple[int, Question]]:
        """Each question once in every epoch, in a new order each time."""
        questions = self._context.questions
        chosen = []
        for number in range(task.first, task.first + task.count):
            epoch, position = divmod(number, len(questions))
            order = np.random.default_rng([task.seed, 4, epoch]).permutation(len(questions))
            chosen.append((number, questions[int(order[position])]))
        return chosen


@dataclass(frozen=True, slots=True)
class ActorFactory:
    """Opens index, reader and questions in the actor's process.

    `only`: the ids of the questions to play, as sessions name them; empty: all that have answers.
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

    def __call__(self) -> Callable[[ActorTask], list[Trajectory]]:
        return Actor(self.context(), self.keep_rows)

    def context(self) -> SelfPlayContext:
        from orienteer.data import read_questions
        from orienteer.engine.open import open_engine
        from orienteer.reader import CachedReader, TrainedReader

        engine = open_engine(Path(self.index), threads=self.threads)
        trained = TrainedReader.from_pretrained(Path(self.reader) if self.reader else None, threads=self.threads)
        reader = CachedReader(trained, disk=Path(self.cache) if self.cache else None)
        questions = [
            question for question in read_questions(self.questions)
            if question.is_judged and (not self.only or clean(question.id) in self.only)
        ]  # fmt: skip
        return SelfPlayContext.of(engine, reader, questions, load_pretrained(self.base), self.config, self.threads)
