"""What a step of the T5 agent costs beside search and reading: one session at a time, and 64 in lock-step.

    python benchmarks/t5.py --index INDEX --questions QUESTIONS.jsonl --t5 FOLDER --out t5-speed.json

A stand-in reads, so that only the agent is timed. Beam 4, held to the grammar G4 unless told otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

from orienteer.agents.seq2seq.folder import load_folder
from orienteer.agents.t5.agent import T5Agent
from orienteer.data import read_questions
from orienteer.engine import open_index
from orienteer.query import GRAMMARS
from orienteer.session import Action, Environment, Observation, Settings, run_sessions
from pointer import StandIn


class Measured:
    """An agent with a note of what its steps cost, how many tokens it read and between how many terms it chose."""

    def __init__(self, agent: T5Agent) -> None:
        self._agent = agent
        self.forget()

    def forget(self) -> None:
        self.tokens: list[int] = []
        self.terms: list[int] = []
        self.seconds = 0.0
        self.processor = 0.0  # seconds of all threads: what is left of the figures on a busy machine

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        began, worked = perf_counter(), process_time()
        actions = self._agent.act(observations)
        self.seconds += perf_counter() - began
        self.processor += process_time() - worked
        texts = [self._agent.render(observation) for observation in observations]
        writer = self._agent.writer
        self.tokens += map(len, writer.codec.sources(texts, writer.max_source))
        self.terms += [len(observation.terms) for observation in observations]
        return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--t5", type=Path, required=True, help="folder of a T5 agent")
    parser.add_argument("--grammar", default="G4")
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--snippet", type=int, help="words of a passage; none: as it was trained")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--alone", type=int, default=8, help="sessions that are played one at a time")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    files = load_folder(arguments.t5, "t5")
    engine = open_index(arguments.index)
    questions = list(islice(read_questions(arguments.questions), arguments.sessions))
    agent = Measured(
        T5Agent(files, engine, GRAMMARS[arguments.grammar], free=arguments.free, threads=arguments.threads)
    )
    settings = Settings(steps=arguments.steps, snippet=arguments.snippet or files.told["layout"]["snippet"])
    result: dict[str, Any] = {
        "_run": {
            "machine": platform.processor() or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "load when started": os.getloadavg()[0],
            "encoder": files.shape.architecture,
            "width": files.shape.width,
            "layers": [files.shape.encoder_layers, files.shape.decoder_layers],
            "grammar": arguments.grammar,
            "free": arguments.free,
            "steps": arguments.steps,
        }
    }
    alone = questions[: arguments.alone]
    for name, together, asked in (("one session", 1, alone), ("in lock-step", len(questions), questions)):
        environment = Environment(engine, StandIn(), settings)
        run_sessions(environment, agent, questions[:1], together=1)  # compiles what is not compiled yet
        agent.forget()
        run_sessions(environment, agent, asked, together=together)
        count = len(agent.tokens)
        result[name] = {
            "sessions together": together,
            "ms a step": round(1000 * agent.seconds / count, 2),
            "processor ms a step": round(1000 * agent.processor / count, 2),
            "steps": count,
            "tokens, mean": round(mean(agent.tokens), 1),
            "tokens, most": max(agent.tokens),
            "terms, mean": round(mean(agent.terms), 1),
        }
        print(json.dumps({name: result[name]}), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
