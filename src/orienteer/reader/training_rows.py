"""Training rows gathered from files, mined at most once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from orienteer.data import read_questions
from orienteer.engine.protocol import Engine
from orienteer.errors import TrainingError
from orienteer.reader.mining import MiningConfig, TrainingRow, mine, read_rows, reading_rows, write_rows


def gather_rows(
    folder: Path,
    engine: Engine | None,
    questions: Sequence[Path],
    reading: Sequence[Path],
    mined: Sequence[Path],
    seed: int = 0,
) -> list[TrainingRow]:
    """All rows; those of `questions` are mined from the engine into `folder`, or read from there."""
    rows = [row for path in mined for row in read_rows(path)]
    for path in questions:
        # The name holds what decides the rows, so that another file or seed is mined anew.
        key = hashlib.sha256(f"{path.resolve()} {path.stat().st_size} {seed}".encode()).hexdigest()[:12]
        kept = folder / f"mined-{key}.jsonl.zst"
        if not kept.exists():
            if engine is None:
                raise TrainingError(f"{path}: its negatives are not mined yet; name the index to mine: --index DIR")
            folder.mkdir(parents=True, exist_ok=True)
            write_rows(kept, mine(read_questions(path), engine, MiningConfig(seed=seed)))
        rows += read_rows(kept)
    return rows + [row for path in reading for row in reading_rows(path)]
