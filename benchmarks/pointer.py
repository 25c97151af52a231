"""What a step of the pointer costs beside search and reading: one session at a time, and 64 in lock-step.

    python benchmarks/pointer.py --index INDEX --questions QUESTIONS.jsonl --pointer FOLDER --out pointer-speed.json

Without `--pointer`, `--base` makes one with a random head from any BERT's folder: the cost is the same. A stand-in
reads, so that only the pointer is timed; snippets of 45 words fill the rows up to the limit of 320 wordpieces.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.folder import Layout, PointerFiles, load_folder
from orienteer.agents.pointer.rendering import KINDS, SOURCES
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.agents.pointer.slots import OPERATORS, SLOTS
from orienteer.data import Passage, read_questions
from orienteer.engine import open_index
from orienteer.query import G4
from orienteer.reader.protocol import Reading
from orienteer.session import Action, Environment, Observation, Settings, run_sessions

HIDDEN = 256


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


def untrained(base: Path) -> PointerFiles:
    """A BERT's encoder with a random head."""
    config = json.loads((base / "config.json").read_text())
    named = load_file(base / "model.safetensors")
    tensors: dict[str, Any] = {
        f"encoder.{name.removeprefix('bert.')}": value for name, value in named.items() if "pooler" not in name
    }
    kinds = "encoder.embeddings.token_type_embeddings.weight"
    tensors[kinds] = tensors[kinds][[0, *[1] * (KINDS - 1)]]
    width = config["hidden_size"]
    around = width + len(MOMENT_FEATURES)
    generator = np.random.default_rng(0)
    for name, rows, columns in (
        ("term", HIDDEN, len(SOURCES) * width + len(TERM_FEATURES)), ("moment", HIDDEN, around),
        ("mix", HIDDEN, HIDDEN), ("slots", len(SLOTS), HIDDEN),
        ("whole", HIDDEN, around + len(OPERATORS) + HIDDEN), ("outcome", 2, HIDDEN),
    ):  # fmt: skip
        tensors[f"{name}.weight"] = generator.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)
        tensors[f"{name}.bias"] = np.zeros(rows, np.float32)
    config = {**config, "type_vocab_size": KINDS}
    tokenizer = (base / "tokenizer.json").read_text()
    return PointerFiles(config, tensors, tokenizer, Layout(), Decoding(), "untrained")


class Measured:
    """An agent with a note of what its steps cost, how long its rows were and how many terms they had."""

    def __init__(self, agent: PointerAgent) -> None:
        self._agent = agent
        self.forget()

    def forget(self) -> None:
        self.pieces: list[int] = []
        self.terms: list[int] = []
        self.seconds = 0.0
        self.processor = 0.0  # seconds of all threads: what is left of the figures on a busy machine

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        began, worked = perf_counter(), process_time()
        actions = self._agent.act(observations)
        self.seconds += perf_counter() - began
        self.processor += process_time() - worked
        views = [self._agent.view(observation) for observation in observations]
        self.pieces += [len(view.rendered.ids) for view in views]
        self.terms += [len(view.terms) for view in views]
        return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--pointer", type=Path, help="folder of a pointer")
    parser.add_argument("--base", type=Path, help="folder of a BERT, where there is no pointer")
    parser.add_argument("--snippet", type=int, default=45)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--blind", action="store_true", help="without a look at what refinements find")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    files = load_folder(arguments.pointer) if arguments.pointer else untrained(arguments.base)
    files = replace(files, decoding=replace(files.decoding, look=not arguments.blind))
    engine = open_index(arguments.index)
    questions = list(islice(read_questions(arguments.questions), arguments.sessions))
    settings = Settings(steps=arguments.steps, snippet=arguments.snippet)
    result: dict[str, Any] = {
        "_run": {
            "machine": platform.processor() or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "load when started": os.getloadavg()[0],
            "snippet": arguments.snippet,
            "steps": arguments.steps,
            "look": "weigher.centre" in files.tensors and not arguments.blind,
        }
    }
    for name, together, asked in (("one session", 1, questions[:8]), ("in lock-step", len(questions), questions)):
        agent = Measured(PointerAgent(files, engine, G4, threads=arguments.threads))
        environment = Environment(engine, StandIn(), settings)
        run_sessions(environment, agent, questions[:1], together=1)  # compiles what is not compiled yet
        agent.forget()
        run_sessions(environment, agent, asked, together=together)
        count = len(agent.pieces)
        result[name] = {
            "sessions together": together,
            "ms a step": round(1000 * agent.seconds / count, 2),
            "processor ms a step": round(1000 * agent.processor / count, 2),
            "steps": count,
            "wordpieces, mean": round(mean(agent.pieces), 1),
            "wordpieces, most": max(agent.pieces),
            "terms, mean": round(mean(agent.terms), 1),
        }
        print(json.dumps({name: result[name]}), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
