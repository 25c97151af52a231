"""The reward of a T5 agent in training, by real sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orienteer.agents.pointer.judging import session_measures
from orienteer.agents.seq2seq.folder import ModelFiles
from orienteer.agents.t5.agent import T5Agent
from orienteer.data.passage import Question
from orienteer.query import Grammar
from orienteer.session import Environment


@dataclass(frozen=True, slots=True)
class Judge:
    """Plays questions with known answers; `environment` says with what engine, reader and settings.

    Give the environment a reader that remembers: most passages come again at the next judgement.
    """

    environment: Environment
    questions: Sequence[Question]
    grammar: Grammar
    threads: int = 1

    def __call__(self, files: ModelFiles) -> Mapping[str, float]:
        agent = T5Agent(files, self.environment.engine, self.grammar, threads=self.threads)
        return session_measures(self.environment, agent, self.questions)
