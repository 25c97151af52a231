"""A search session as a Gymnasium environment: the usual reset/step loop with a random policy (extra: gym)."""

import gymnasium as gym
import numpy as np

import orienteer.session.gym  # noqa: F401  (registers the environment)
from orienteer import Searcher
from orienteer.bundled import bundled_questions

searcher = Searcher.open()
env = gym.make(
    "orienteer/SearchSession-v0", engine=searcher.engine, reader=searcher.reader, questions=bundled_questions("train")
)
generator = np.random.default_rng(0)
for episode in range(3):
    _, info = env.reset(seed=episode)
    total, done = 0.0, False
    while not done:
        legal = np.flatnonzero(info["action_mask"])
        _, reward, terminated, truncated, info = env.step(int(generator.choice(legal)))
        total, done = total + float(reward), terminated or truncated
    print(f"episode {episode}: return {total:+.3f}, question {info['id']}")
