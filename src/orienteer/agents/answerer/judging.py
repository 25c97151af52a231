"""How often a generator in training answers exactly, from passages that an agent found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orienteer.agents.answerer.answerer import Answerer
from orienteer.agents.t5.model_files import ModelFiles
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.answer_matching import exact_match
from orienteer.reader.protocol import Reader
from orienteer.session import Session, Settings, run_sessions


@dataclass(frozen=True, slots=True)
class Judge:
    """Answers the questions of sessions that were played once; `EM-MR` beside it is the reader's own."""

    sessions: Sequence[Session]
    threads: int = 1

    def __call__(self, files: ModelFiles) -> Mapping[str, float]:
        """Means in percent, as the evaluation names them; `EM-T5` is what early stopping looks at."""
        answers = Answerer(files, threads=self.threads).of_sessions(self.sessions)
        pairs = list(zip(answers, self.sessions, strict=True))
        count = max(1, len(pairs))
        return {
            "EM-T5": 100 * sum(exact_match(answer, each.question.answers) for answer, each in pairs) / count,
            "EM-MR": 100 * sum(exact_match(each.answer, each.question.answers) for _, each in pairs) / count,
        }


def played_sessions(engine: Engine, reader: Reader, agent: str, questions: Sequence[Question]) -> list[Session]:
    """The sessions of a named agent on questions with known answers."""
    from orienteer.agents.registry import make_agent

    entry = make_agent(agent, engine, Settings())
    sessions = run_sessions(entry.environment(engine, reader), entry.agent, questions).sessions
    return [session for session in sessions if session.question.answers]
