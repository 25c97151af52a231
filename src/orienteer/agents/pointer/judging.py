"""The reward of an agent in training, by real sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orienteer.agents.pointer.folder import PointerFiles
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.data.passage import Question
from orienteer.query import Grammar
from orienteer.session import Agent, Environment, ndcg, run_sessions


@dataclass(frozen=True, slots=True)
class Judge:
    """Plays questions with known answers; `environment` says with what engine, reader and settings.

    Give the environment a reader that remembers: most passages come again at the next judgement.
    """

    environment: Environment
    questions: Sequence[Question]
    grammar: Grammar
    threads: int = 1

    def __call__(self, files: PointerFiles) -> Mapping[str, float]:
        agent = PointerAgent(files, self.environment.engine, self.grammar, threads=self.threads)
        return session_measures(self.environment, agent, self.questions)


def session_measures(environment: Environment, agent: Agent, questions: Sequence[Question]) -> dict[str, float]:
    """Means in percent, as the evaluation names them; `reward` is what early stopping looks at."""
    sessions = [s for s in run_sessions(environment, agent, questions).sessions if s.score and s.steps]
    count = max(1, len(sessions))
    relevant = [[bool(each.relevant) for each in session.best] for session in sessions]
    return {
        "reward": 100 * sum(session.reward or 0.0 for session in sessions) / count,
        "score": 100 * sum(session.score.total for session in sessions if session.score) / count,
        "NDCG@5": 100 * sum(map(ndcg, relevant)) / count,
        "Top-5": 100 * sum(map(any, relevant)) / count,
        "passages_read": sum(session.passages_read for session in sessions) / count,
    }
