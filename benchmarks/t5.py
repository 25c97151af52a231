"""What a step of the T5 agent costs beside search and reading: one session at a time, and 64 in lock-step.

    python benchmarks/t5.py --index INDEX --questions QUESTIONS.jsonl --t5 FOLDER --out t5-speed.json

Beam 4, held to the grammar G4 unless told otherwise.
"""

from __future__ import annotations

from pathlib import Path

from orienteer.agents.seq2seq.folder import load_folder
from orienteer.agents.t5.agent import T5Agent
from orienteer.engine import open_index
from orienteer.query import GRAMMARS
from orienteer.session import Settings
from steps import Measured, measure, parser


def main() -> None:
    options = parser(str(__doc__))
    options.add_argument("--t5", type=Path, required=True, help="folder of a T5 agent")
    options.add_argument("--grammar", default="G4")
    options.add_argument("--free", action="store_true")
    options.add_argument("--snippet", type=int, help="words of a passage; none: as it was trained")
    arguments = options.parse_args()

    files = load_folder(arguments.t5, "t5")
    engine = open_index(arguments.index)
    agent = T5Agent(files, engine, GRAMMARS[arguments.grammar], free=arguments.free, threads=arguments.threads)
    writer = agent.writer
    measure(
        arguments,
        engine,
        Measured(agent, lambda seen: len(writer.codec.sources([agent.render(seen)], writer.max_source)[0])),
        Settings(steps=arguments.steps, snippet=arguments.snippet or files.told["layout"]["snippet"]),
        {
            "encoder": files.shape.architecture,
            "width": files.shape.width,
            "layers": [files.shape.encoder_layers, files.shape.decoder_layers],
            "grammar": arguments.grammar,
            "free": arguments.free,
        },
    )


if __name__ == "__main__":
    main()
