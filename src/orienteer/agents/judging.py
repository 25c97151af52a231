"""How good an agent in training is: its reward in real sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from orienteer.data.passage import Question
from orienteer.session import Agent, Environment, ndcg, run_sessions

Weights = TypeVar("Weights")


@dataclass(frozen=True, slots=True)
class Judge(Generic[Weights]):
    """Plays questions with known answers; `agent` makes an agent of what is being trained.

    Give the environment a reader that remembers: most passages come again at the next judgement.
    """

    environment: Environment
    questions: Sequence[Question]
    agent: Callable[[Weights], Agent]

    def __call__(self, weights: Weights) -> dict[str, float]:
        """Means in percent, as the evaluation names them; `reward` is what early stopping looks at."""
        played = run_sessions(self.environment, self.agent(weights), self.questions).sessions
        sessions = [session for session in played if session.score and session.steps]
        count = max(1, len(sessions))
        relevant = [[bool(each.relevant) for each in session.best] for session in sessions]
        return {
            "reward": 100 * sum(session.reward or 0.0 for session in sessions) / count,
            "score": 100 * sum(session.score.total for session in sessions if session.score) / count,
            "NDCG@5": 100 * sum(map(ndcg, relevant)) / count,
            "Top-5": 100 * sum(map(any, relevant)) / count,
            "passages_read": sum(session.passages_read for session in sessions) / count,
        }
