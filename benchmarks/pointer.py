"""What a step of the pointer costs beside search and reading: one session at a time, and 64 in lock-step.

    python benchmarks/pointer.py --index INDEX --questions QUESTIONS.jsonl --pointer FOLDER --out pointer-speed.json

Without `--pointer`, `--base` makes one with a random head from any BERT's folder: the cost is the same. Snippets of 45
words fill the rows up to the limit of 320 wordpieces.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.folder import Layout, PointerFiles, load_folder
from orienteer.agents.pointer.rendering import KINDS, SOURCES
from orienteer.agents.pointer.runtime import PointerAgent
from orienteer.agents.pointer.slots import OPERATORS, SLOTS
from orienteer.engine import open_index
from orienteer.query import G4
from orienteer.session import Settings
from steps import Measured, measure, parser

HIDDEN = 256


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


def main() -> None:
    options = parser(str(__doc__))
    options.add_argument("--pointer", type=Path, help="folder of a pointer")
    options.add_argument("--base", type=Path, help="folder of a BERT, where there is no pointer")
    options.add_argument("--snippet", type=int, default=45)
    options.add_argument("--blind", action="store_true", help="without a look at what refinements find")
    arguments = options.parse_args()

    files = load_folder(arguments.pointer) if arguments.pointer else untrained(arguments.base)
    files = replace(files, decoding=replace(files.decoding, look=not arguments.blind))
    engine = open_index(arguments.index)
    agent = PointerAgent(files, engine, G4, threads=arguments.threads)
    measure(
        arguments,
        engine,
        Measured(agent, lambda observation: len(agent.view(observation).rendered.ids)),
        Settings(steps=arguments.steps, snippet=arguments.snippet),
        {"look": "weigher.centre" in files.tensors and not arguments.blind},
    )


if __name__ == "__main__":
    main()
