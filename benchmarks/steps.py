"""The cost of an agent's steps beside search and reading: one session at a time, and many in lock-step.

A stand-in reads, so that only the agent is timed; `benchmarks/pointer.py` and `benchmarks/t5.py` bring the agents.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

from orienteer.data import Passage, read_questions
from orienteer.engine import Engine
from orienteer.reader.protocol import Reading
from orienteer.session import Action, Agent, Environment, Observation, Settings, run_sessions


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
    """An agent with a note of what its steps cost, and of the size of what it saw at each of them."""

    def __init__(self, agent: Agent, size: Callable[[Observation], int]) -> None:
        self._agent, self._size = agent, size
        self.forget()

    def forget(self) -> None:
        self.sizes: list[int] = []
        self.terms: list[int] = []
        self.seconds = 0.0
        self.processor = 0.0  # seconds of all threads: what is left of the figures on a busy machine

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        began, worked = perf_counter(), process_time()
        actions = self._agent.act(observations)
        self.seconds += perf_counter() - began
        self.processor += process_time() - worked
        self.sizes += map(self._size, observations)
        self.terms += [len(observation.terms) for observation in observations]
        return actions


def parser(told: str) -> argparse.ArgumentParser:
    """The options that such benchmarks share."""
    options = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--index", type=Path, required=True)
    options.add_argument("--questions", type=Path, required=True)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--sessions", type=int, default=64, help="in lock-step")
    options.add_argument("--alone", type=int, default=8, help="sessions that are played one at a time")
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--out", type=Path)
    return options


def measure(
    arguments: argparse.Namespace, engine: Engine, agent: Measured, settings: Settings, about: Mapping[str, Any]
) -> None:
    """Plays the sessions, prints what a step cost, and keeps it in the file of `--out`."""
    questions = list(islice(read_questions(arguments.questions), arguments.sessions))
    result: dict[str, Any] = {
        "_run": {
            "machine": platform.processor() or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "load when started": os.getloadavg()[0],
            "snippet": settings.snippet,
            "steps": settings.steps,
            **about,
        }
    }
    environment = Environment(engine, StandIn(), settings)
    alone = questions[: arguments.alone]
    for name, together, asked in (("one session", 1, alone), ("in lock-step", len(questions), questions)):
        run_sessions(environment, agent, questions[:1], together=1)  # compiles what is not compiled yet
        agent.forget()
        run_sessions(environment, agent, asked, together=together)
        count = len(agent.sizes)
        result[name] = {
            "sessions together": together,
            "ms a step": round(1000 * agent.seconds / count, 2),
            "processor ms a step": round(1000 * agent.processor / count, 2),
            "steps": count,
            "wordpieces, mean": round(mean(agent.sizes), 1),
            "wordpieces, most": max(agent.sizes),
            "terms, mean": round(mean(agent.terms), 1),
        }
        print(json.dumps({name: result[name]}), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
