"""What a step of an agent costs beside search and reading: one session at a time, and many in one batch.

    orienteer bench steps --agents 'pointer[snippet=45],muzero' --index INDEX --questions QUESTIONS.jsonl

A stand-in reads, so that only the agent is timed; with `--read` the shipped reader does, and the table says where the
time of a session goes. With snippets of 45 words the pointer's rows fill its limit of 320 wordpieces.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orienteer.agents import make_agent
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.t5.agent import T5Agent
from orienteer.data import Passage, Question, read_questions
from orienteer.engine import Engine, open_index
from orienteer.errors import OrienteerError
from orienteer.reader import Reader, Reading, TrainedReader
from orienteer.session import Action, Agent, Observation, Settings, run_sessions

err = Console(stderr=True, highlight=False)


class StandIn:
    """Reads nothing: PS by the question's words in the passage, the answer in its middle."""

    fingerprint = "stand-in"

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        asked = set(question.lower().split())
        return [_reading(asked, passage) for passage in passages]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        return [self.read(question, passages) for question, passages in batch]


def _reading(asked: set[str], passage: Passage) -> Reading:
    words = set(passage.text.lower().split())
    score = (1 + len(asked & words)) / (2 + len(asked))
    start = len(passage.text) // 2
    end = min(len(passage.text), start + 12)
    return Reading(score, 0.0, passage.text[start:end], start, end)


class Measured:
    """An agent with a note of what its steps cost, and of how much it saw at each of them."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.forget()

    def forget(self) -> None:
        self.pieces: list[int] = []
        self.terms: list[int] = []
        self.seconds = 0.0
        self.processor = 0.0  # seconds of all threads: what is left of the figures on a busy machine

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        began, worked = perf_counter(), process_time()
        actions = self._agent.act(observations)
        self.seconds += perf_counter() - began
        self.processor += process_time() - worked
        self.pieces += [_pieces(self._agent, observation) for observation in observations]
        self.terms += [len(observation.terms) for observation in observations]
        return actions


def _pieces(agent: Agent, observation: Observation) -> int:
    """Wordpieces that the agent encodes; 0 where it does not say."""
    if isinstance(agent, PointerAgent):
        return len(agent.featurize(observation).rendered.ids)
    if isinstance(agent, T5Agent):
        return len(agent.generator.codec.encode_sources([agent.render(observation)], agent.generator.max_source)[0])
    return 0


def run(
    index: Path,
    questions: Path,
    agents: Sequence[str],
    steps: int,
    alone: int,
    together: int,
    read: bool,
    as_json: bool,
) -> None:
    engine = open_index(index)
    reader = TrainedReader.from_pretrained() if read else StandIn()
    asked = list(islice(read_questions(questions), max(alone, together)))
    if not asked:
        raise OrienteerError(f"{questions}: no questions")
    err.print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    rows = [
        measure(engine, reader, name, asked[:count], steps, lock_step)
        for name in agents
        for count, lock_step in ((alone, 1), (together, together))
    ]
    if as_json:
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    table = Table(*rows[0], box=None, title="cost of a step beside search and reading")
    for row in rows:
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else escape(str(value)) for value in row.values()))
    Console().print(table)


def measure(
    engine: Engine, reader: Reader, name: str, questions: Sequence[Question], steps: int, together: int
) -> dict[str, Any]:
    """Sessions of an agent, so many in one batch."""
    entry = make_agent(name, engine, Settings(steps=steps))
    if hasattr(entry.agent, "play"):
        raise OrienteerError(f"the agent {name!r} plays several others, no steps of its own; name one of them")
    agent = Measured(entry.agent)
    environment = entry.environment(engine, reader)
    run_sessions(environment, agent, questions[:1], batch_size=1)  # compiles what is not compiled yet
    agent.forget()
    seconds = run_sessions(environment, agent, questions, batch_size=together).seconds
    count = max(1, len(agent.terms))
    parts = {part: getattr(seconds, part) / len(questions) for part in ("engine", "reader")}
    return {
        "agent": name,
        "together": together,
        "ms a step": 1000 * agent.seconds / count,
        "processor ms": 1000 * agent.processor / count,
        "steps": len(agent.terms),
        "wordpieces": mean(agent.pieces or [0]),
        "terms": mean(agent.terms or [0]),
        "s a session: engine": parts["engine"],
        "reader": parts["reader"],
        "agent's": agent.seconds / len(questions),
    }
