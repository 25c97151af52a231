"""What the adapters share: an index, a reader and an agent that turn questions into the best passages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orienteer.agents import make_agent
from orienteer.data.passage import Question
from orienteer.defaults import AGENT
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.session import SeenPassage, Session, Settings, run_sessions


class Researcher:
    """Asks an agent; questions that come together are played in lock-step. Safe to share between threads."""

    def __init__(self, engine: Engine, reader: Reader, agent: str = AGENT, steps: int = 20) -> None:
        self._engine, self._reader = engine, reader
        self._entry = make_agent(agent, engine, Settings(steps=steps))

    @classmethod
    def open(
        cls, index: Path | str, *, agent: str = AGENT, steps: int = 20, reader: Path | str | None = None
    ) -> Researcher:
        """An index by its address: a folder, `DIR,DIR` as shards, or that of a search service; the shipped reader."""
        from orienteer.engine.open import open_engine
        from orienteer.reader import CachedReader, TrainedReader

        return cls(open_engine(index), CachedReader(TrainedReader.from_pretrained(reader)), agent, steps)

    def sessions(self, questions: Sequence[str]) -> tuple[Session, ...]:
        """A session a question, in their order."""
        environment = self._entry.environment(self._engine, self._reader)
        return run_sessions(environment, self._entry.agent, [Question("ask", text) for text in questions]).sessions


def about(each: SeenPassage, session: Session) -> dict[str, Any]:
    """What is known of a passage beside its text; the query is the one that found it."""
    return {
        "id": each.passage.id,
        "title": each.passage.title,
        "ps": float(each.reading.score),
        "answer": each.reading.answer,
        "query": str(session.steps[each.step].query),
        "rank": each.rank,
    }
