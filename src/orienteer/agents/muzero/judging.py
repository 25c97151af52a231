"""The reward of MuZero in training, by real sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.muzero.base import Base
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.folder import MuZeroFiles
from orienteer.agents.muzero.sight import Eyes
from orienteer.agents.muzero.tries import Trie
from orienteer.data.passage import Question
from orienteer.session import Environment, ndcg, run_sessions


@dataclass(frozen=True, slots=True)
class Judge:
    """Plays questions with known answers. Give the environment a reader that remembers.

    `eyes` where h does not change in training.
    """

    environment: Environment
    questions: Sequence[Question]
    base: Base
    config: Config
    index: Trie
    eyes: Eyes | None = None
    threads: int = 1

    def __call__(self, weights: Mapping[str, NDArray[Any]]) -> Mapping[str, float]:
        """Means in percent, as the evaluation names them."""
        tensors = {**self.base.tensors, **weights}
        files = MuZeroFiles(self.base.bert, tensors, self.base.tokenizer, self.config, "unsaved", {})
        agent = MuZeroAgent(
            files, self.environment.engine, threads=self.threads, eyes=self.eyes, index=self.index
        )  # fmt: skip
        sessions = [s for s in run_sessions(self.environment, agent, self.questions).sessions if s.score and s.steps]
        count = max(1, len(sessions))
        relevant = [[bool(each.relevant) for each in session.best] for session in sessions]
        return {
            "reward": 100 * sum(session.reward or 0.0 for session in sessions) / count,
            "score": 100 * sum(session.score.total for session in sessions if session.score) / count,
            "NDCG@5": 100 * sum(map(ndcg, relevant)) / count,
            "Top-5": 100 * sum(map(any, relevant)) / count,
        }
