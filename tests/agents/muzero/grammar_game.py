"""Two games of the grammar without any engine: each turn shows a mood, and one word fits it; or words are arms."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from little_vocabulary import SPELLING, TERMS, term
from tiny_networks import WHOLE, WIDTH, index_trie, word_table

from orienteer.agents.action_space import SLOTS
from orienteer.agents.encoding import Rendered
from orienteer.agents.muzero.config import Config, NetworkConfig, SearchSettings, Support, TrainingConfig
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.model_files import published
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.planning import plan_steps
from orienteer.agents.muzero.replay import Trajectory, make_step
from orienteer.agents.muzero.representation import EncodedObservation, TokenizedObservation
from orienteer.agents.muzero.root import root_state
from orienteer.agents.muzero.self_play import ActorTask
from orienteer.agents.muzero.tries import local_tries
from orienteer.query import GRAMMARS

WORDS = [term(each.text, "snippet") for each in TERMS]
TURNS = 2
CONFIG = Config(
    grammar="G0",
    networks=NetworkConfig(
        lstm=32, head=16, embed=16, gru=4, history=4, value=Support(-1.0, 2.0, 7), reward=Support(-1.0, 1.0, 5),
        policy_prior=False,
    ),
    search=SearchSettings(simulations=12, children=20, unvisited="parent", noise_share=0.25, noise_alpha=0.5),
    training=TrainingConfig(
        batch=32, episodes=32, updates=15, replay_size=512, steps=TURNS, learning_rate=5e-3, unroll=3, reanalyse=0.25,
        guided_share=0.0,
    ),
)  # fmt: skip


def grammar_of(config: Config = CONFIG):  # type: ignore[no-untyped-def]
    return query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)


def encoding_of(mood: int, draw: np.random.Generator) -> EncodedObservation:
    whole = draw.normal(0, 0.1, WHOLE).astype(np.float32)
    whole[mood] += 1
    terms = draw.normal(0, 0.1, (len(WORDS), WIDTH)).astype(np.float32)
    terms[np.arange(len(WORDS)), np.arange(len(WORDS))] += 1
    terms = terms.astype(np.float16).astype(np.float32)  # as turns keep them
    return EncodedObservation(
        whole, terms, draw.normal(size=(len(WORDS), len(SLOTS))).astype(np.float16).astype(np.float32), 0.0
    )


def tokenized_of() -> TokenizedObservation:
    row = Rendered(np.zeros(1, np.int32), np.zeros(1, np.uint8), np.zeros((0, 3), np.int16))
    none = np.zeros(1, np.uint8)
    return TokenizedObservation(
        tuple(WORDS), row, none, none, np.zeros((len(WORDS), 1), np.float32), np.zeros(1, np.float32)
    )


@dataclass(frozen=True)
class MakeGame:
    """The actor's work; `arms` are the chances that each word pays, none: the word that fits the mood does."""

    config: Config = CONFIG
    arms: tuple[float, ...] = ()

    def __call__(self):  # type: ignore[no-untyped-def]
        return lambda task: play(self.config, task, self.arms)


@dataclass(frozen=True)
class MakeMortal:
    """As `MakeGame`, but some chunks, at most `most`, kill their first worker at a random moment of their playing."""

    folder: str
    most: int
    config: Config = CONFIG

    def __call__(self):  # type: ignore[no-untyped-def]
        return self._work

    def _work(self, task: ActorTask) -> list[Trajectory]:
        mark = Path(self.folder) / f"killed-{task.number}"
        if task.number % 3 == 1 and task.number // 3 < self.most and not mark.exists():
            mark.touch()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process, whatever it is about
            signal.setitimer(signal.ITIMER_REAL, np.random.default_rng(task.number).uniform(0.001, 0.3))
            play(self.config, task)
            time.sleep(1)
        return play(self.config, task)


def play(config: Config, task: ActorTask, arms: tuple[float, ...] = ()) -> list[Trajectory]:
    tensors, _ = published(Path(task.folder))
    own = {name.removeprefix("muzero."): value for name, value in tensors.items()}
    networks = Networks(own, config.networks, word_table(), grammar_of(config), index_trie())
    numbers = range(task.first, task.first + task.count)
    draws = [np.random.default_rng([task.seed, number]) for number in numbers]
    steps_of: list[list] = [[] for _ in numbers]  # type: ignore[type-arg]
    past: list[list[int]] = [[] for _ in numbers]
    tries = local_tries(WORDS, SPELLING)
    for taken in range(TURNS):
        moods = [0 if arms else int(draw.integers(len(WORDS))) for draw in draws]  # arms know no moods
        encodings = [encoding_of(mood, draw) for mood, draw in zip(moods, draws, strict=True)]
        roots = [
            root_state(networks, s, WORDS, tries, p, TURNS - taken, False) for s, p in zip(encodings, past, strict=True)
        ]
        plans = plan_steps(networks, roots, config.search, draws, config.training.temperature)
        for place, (plan, mood) in enumerate(zip(plans, moods, strict=True)):
            reward = float(draws[place].random() < arms[plan.word] if arms else plan.word == mood)
            steps_of[place].append(
                make_step(tokenized_of(), encodings[place], tries, past[place], plan, reward, TURNS - taken, False)
            )
            past[place] = past[place] + plan.actions
    return [
        Trajectory(number, tuple(own), "steps", 0.0, sum(turn.reward for turn in own))
        for number, own in zip(numbers, steps_of, strict=True)
    ]


def best_play(config: Config, folder: Path, seed: int = 99, arms: tuple[float, ...] = ()) -> float:
    """The mean reward a turn when nothing is left to chance."""
    quiet = replace(
        config, search=replace(config.search, noise_share=0.0), training=replace(config.training, temperature=0.0)
    )
    episodes = play(quiet, ActorTask(0, 0, 64, seed, str(folder)), arms)
    return sum(trajectory.last_score for trajectory in episodes) / (64 * TURNS)
