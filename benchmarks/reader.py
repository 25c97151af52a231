"""Every figure of the reader in one run: answers, ranks, probabilities, what int8 costs and gains.

    orienteer bench reader --index INDEX --data ../shared/data --out measures.json

Reading dominates: `--sample` limits the questions of each set, `--deep` those whose BM25 top 100 is read, `--titles`
those read again without titles. What was used is in the file.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from orienteer.data import Question, read_questions
from orienteer.engine import Engine, open_index
from orienteer.errors import OrienteerError
from orienteer.reader import TrainedReader
from orienteer.reader.cache import CachedReader, ReadingFile
from orienteer.reader.evaluate import bm25_passages, gold_measures, judge
from orienteer.reader.protocol import Reader
from reader_speed import bench_speed

PARTS = ("gold", "speed", "rank", "float32")


def questions(data: Path, name: str, sample: int) -> list[Question]:
    found = list(read_questions(data / "questions" / f"{name}.jsonl.xz"))
    return found[:sample] if sample else found


def gold(reader: Reader, engine: Engine, asked: list[Question]) -> dict[str, float]:
    passages = engine.passages([q.passage_id for q in asked if q.passage_id])
    return {name: round(value, 2) for name, value in gold_measures(reader, asked, passages).items()}


def run(
    index: Path, data: Path, folder: Path | None, float32: Path | None, sample: int, deep: int, titles: int,
    cache: Path | None, threads: int, parts: list[str], out: Path | None,
) -> None:  # fmt: skip
    """Prints a line of JSON for each part, and writes all of them to `out`."""
    if unknown := set(parts) - set(PARTS):
        raise OrienteerError(f"--parts {','.join(sorted(unknown))}: expected some of {','.join(PARTS)}")
    engine = open_index(index)
    kept = ReadingFile(cache) if cache else None
    reader = CachedReader(TrainedReader.from_pretrained(folder, threads=threads), 200_000, kept)
    result: dict[str, Any] = {
        "_run": {
            "reader": reader.fingerprint,
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load when started": os.getloadavg()[0],
            "sample": sample,
            "deep": deep,
            "titles": titles,
        }
    }
    sets = {name: questions(data, name, sample) for name in ("squad-dev", "dev", "dev-who")}

    def note(name: str, value: Any) -> None:
        result[name] = value
        print(json.dumps({name: value}), flush=True)
        if out:
            out.write_text(json.dumps(result, indent=1) + "\n")

    began = time.perf_counter()
    if "gold" in parts:
        note("gold passage", {name: gold(reader, engine, asked) for name, asked in sets.items()})
    if "speed" in parts:
        pairs = bm25_passages(engine, sets["dev"][:20], 10)
        note("speed, one thread", bench_speed(pairs, folder, threads=1, rounds=3))
    if "rank" in parts:
        note("dev, BM25 top 20", judge(reader, engine, sets["dev"], 20, titles))
    if deep:
        note("dev, BM25 top 100", judge(reader, engine, sets["dev"][:deep], 100, titles=0))
    if "float32" in parts and float32:
        exact = CachedReader(TrainedReader.from_pretrained(float32, "float32", threads), 0, kept)
        note("float32, gold passage", {name: gold(exact, engine, asked) for name, asked in sets.items()})
        some = sets["dev"][:150]
        note("150 of dev, BM25 top 20, int8", judge(reader, engine, some, 20, titles=0))
        note("150 of dev, BM25 top 20, float32", judge(exact, engine, some, 20, titles=0))
    note("seconds", round(time.perf_counter() - began))
