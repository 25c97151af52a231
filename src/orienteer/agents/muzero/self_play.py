"""Episodes: sessions played in lock-step by a mind that plans, and remembered turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.action_space import grammar_bits
from orienteer.agents.muzero.action_history import Memory
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import LEFT, QueryGrammar
from orienteer.agents.muzero.guided_exploration import Adviser, promoted
from orienteer.agents.muzero.lookahead_prior import Foresight, promises_little
from orienteer.agents.muzero.observation_tokens import Look, Looker
from orienteer.agents.muzero.planning import Plan, plan_turns
from orienteer.agents.muzero.representation import Eyes, Sight
from orienteer.agents.muzero.root import Mind
from orienteer.agents.muzero.trajectory import Episode, Turn, turn_of
from orienteer.agents.muzero.tries import LocalTries, Spelling, local_tries
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import GRAMMARS
from orienteer.rocchio.vocabulary import Word
from orienteer.session import UNDO, Action, Environment, Observation, Session
from orienteer.session.score import reward


@dataclass(frozen=True, slots=True)
class Senses:
    """Everything between an observation and a scene: looking, seeing, spelling, remembering."""

    looker: Looker
    eyes: Eyes
    spelling: Spelling
    memory: Memory
    config: Config
    threads: int = 1
    foresight: Foresight | None = None

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, engine: Engine, eyes: Eyes, grammar: QueryGrammar, config: Config, threads: int = 1
    ) -> Senses:  # fmt: skip
        spelling = Spelling(tokenizer)
        looker = Looker(tokenizer, engine, config.max_pieces, config.title_pieces)
        foresight = None
        if config.sizes.look and eyes.weigher is not None:
            pieces = tokenizer.get_vocab()
            foresight = Foresight(
                engine, looker.lexicon, pieces, eyes.words, eyes.weigher, GRAMMARS[config.grammar], config.decoding
            )
        return cls(looker, eyes, spelling, Memory(grammar, spelling), config, threads, foresight)

    def see(self, observations: Sequence[Observation]) -> list[tuple[Look, Sight]]:
        bits: NDArray[np.float32] = grammar_bits(GRAMMARS[self.config.grammar])
        seen: list[tuple[Look, Sight]] = []
        size = self.config.training.initial_batch
        for start in range(0, len(observations), size):
            looks = [self.looker(observation) for observation in observations[start : start + size]]
            seen += zip(looks, self.eyes.see(looks, bits), strict=True)
        if self.foresight is None:
            return seen
        return [
            (look, self._foreseen(observation, look, sight))
            for observation, (look, sight) in zip(observations, seen, strict=True)
        ]

    def _foreseen(self, observation: Observation, look: Look, sight: Sight) -> Sight:
        """With what each refinement promises in the place of what the clone thinks of it; stopping promises nothing.

        Where the engine cannot tell, the clone's opinion stands, and is taken for promise enough to go on.
        """
        assert self.foresight is not None
        times = np.float32(self.config.sizes.look)
        promised = self.foresight(observation, look, sight)
        if promised is None:
            promised = (sight.slots - sight.slots.max(initial=0.0)) / times + np.float32(
                self.config.decoding.back + 0.1
            )
        return sight._replace(slots=promised * times, stop=0.0)


@dataclass(slots=True)
class _Game:
    """An episode under way."""

    number: int
    session: Session
    draw: np.random.Generator
    ideal: frozenset[Word] | None
    advised: bool
    turns: list[Turn]


def play_episodes(
    environment: Environment,
    senses: Senses,
    mind: Mind,
    questions: Sequence[tuple[int, Question]],
    seed: int,
    *,
    advice: float = 0.0,
    keep_rows: bool = False,
) -> list[Episode]:
    """One episode a question, which comes with the episode's number: the number and the seed decide every draw."""
    sessions = environment.open([question for _, question in questions])
    draws = [np.random.default_rng([seed, number]) for number, _ in questions]
    advised = [draw.random() < advice for draw in draws]
    ideals = _ideals(environment, sessions, advised)
    games = [
        _Game(number, session, draw, ideal, ideal is not None, [])
        for (number, _), session, draw, ideal in zip(questions, sessions, draws, ideals, strict=True)
    ]
    for _ in range(senses.config.training.turns):
        going = [game for game in games if not game.session.ended]
        if not going:
            break
        _play_turn(environment, senses, mind, going, keep_rows)
    return [_episode(game) for game in games]


def _play_turn(environment: Environment, senses: Senses, mind: Mind, games: Sequence[_Game], keep_rows: bool) -> None:
    """A refinement in every game; or the last one is taken back, where the agent would, and nothing is remembered."""
    config = senses.config
    observations = environment.observe([game.session for game in games])
    seen = senses.see(observations)
    on = [
        place
        for place, (observation, (_, sight)) in enumerate(zip(observations, seen, strict=True))
        if not (observation.refinements and promises_little(sight, config))
    ]
    tries = {place: _tries(seen[place][0], senses.spelling, games[place]) for place in on}
    pasts = {place: senses.memory(observations[place].refinements, config.sizes.past) for place in on}
    scenes = []
    for place in on:
        (look, sight), observation = seen[place], observations[place]
        left, may_stop = observation.steps_left, observation.may_stop
        scenes.append(mind.scene(sight, look.terms, tries[place], pasts[place], left, may_stop))
    plans = plan_turns(
        mind, scenes, config.search, [games[place].draw for place in on], config.training.temperature,
        threads=senses.threads, together=config.training.recurrent_batch,
    )  # fmt: skip
    actions: list[Action] = [UNDO] * len(games)
    for place, plan in zip(on, plans, strict=True):
        actions[place] = plan.action(seen[place][0].terms)
    before = [game.session for game in games]
    for game, session in zip(games, environment.step(before, actions), strict=True):
        game.session = session
    for place, plan, scene in zip(on, plans, scenes, strict=True):
        game, (look, sight) = games[place], seen[place]
        if plan.actions:
            gain = _gain(before[place], game.session, plan, config)
            left = int(scene.state[LEFT])
            game.turns.append(
                turn_of(look, sight, tries[place], pasts[place], plan, gain, left, scene.may_stop, keep_rows)
            )


def _ideals(
    environment: Environment, sessions: Sequence[Session], advised: Sequence[bool]
) -> list[frozenset[Word] | None]:
    found: list[frozenset[Word] | None] = [None] * len(sessions)
    places = [place for place, wanted in enumerate(advised) if wanted]
    if places:
        told = Adviser(environment).ideals([sessions[place] for place in places])
        for place, ideal in zip(places, told, strict=True):
            found[place] = ideal
    return found


def _tries(look: Look, spelling: Spelling, game: _Game) -> LocalTries:
    wanted = None if game.ideal is None else promoted(look.terms, game.ideal)
    return local_tries(look.terms, spelling, wanted)


def _gain(was: Session, now: Session, plan: Plan, config: Config) -> float:
    """The reward of a turn: what its query adds to the score; stopping adds nothing."""
    if plan.word < 0 or len(now.steps) == len(was.steps):
        return 0.0
    step = now.steps[-1]
    if step.score is None or was.score is None:
        return 0.0
    return reward(step.score, was.score) - (config.training.empty_penalty if step.dead_end else 0.0)


def _episode(game: _Game) -> Episode:
    session = game.session
    first, last = session.steps[0].score if session.steps else None, session.score
    return Episode(
        game.number, tuple(game.turns), session.ended or "", first.total if first else 0.0,
        last.total if last else 0.0, sum(step.dead_end for step in session.steps[1:]), game.advised,
    )  # fmt: skip


def rethink(turns: Sequence[Turn], mind: Mind, config: Config, seed: int) -> list[Turn]:
    """Old turns with the policies and values that newer weights find along the same actions (reanalyse)."""
    scenes = [
        mind.scene(turn.sight, turn.where, turn.tries, turn.past.tolist(), turn.left, turn.may_stop) for turn in turns
    ]
    draws = [np.random.default_rng([seed, place]) for place in range(len(turns))]
    plans = plan_turns(
        mind, scenes, replace(config.search, noise_share=0.0), draws, along=[turn.actions.tolist() for turn in turns]
    )
    return [turn.rethought(plan) for turn, plan in zip(turns, plans, strict=True)]
