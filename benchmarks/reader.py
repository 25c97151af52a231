"""Every figure of the reader in one run: answers, ranks, probabilities, what int8 costs and gains.

    python benchmarks/reader.py --index INDEX --data ../shared/data --out measures.json

Reading dominates: `--sample` limits the questions of each set, `--deep` those whose BM25 top 100 is read, `--titles`
those read again without titles. What was used is in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from orienteer.data import Question, read_questions
from orienteer.engine import Engine, open_index
from orienteer.reader import TrainedReader
from orienteer.reader.bench import bench_speed
from orienteer.reader.cache import CachedReader, ReadingFile
from orienteer.reader.judging import gold_measures, judge
from orienteer.reader.protocol import Reader
from orienteer.reader.ranking import bm25_passages


def questions(data: Path, name: str, sample: int) -> list[Question]:
    found = list(read_questions(data / "questions" / f"{name}.jsonl.xz"))
    return found[:sample] if sample else found


def gold(reader: Reader, engine: Engine, asked: list[Question]) -> dict[str, float]:
    passages = engine.passages([q.passage_id for q in asked if q.passage_id])
    return {name: round(value, 2) for name, value in gold_measures(reader, asked, passages).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--reader", type=Path, help="folder of a reader; none: the shipped one")
    parser.add_argument("--float32", type=Path, help="folder with the float32 weights, to compare int8 with")
    parser.add_argument("--sample", type=int, default=0, help="questions of each set, 0: all")
    parser.add_argument("--deep", type=int, default=0, help="questions whose top 100 is read")
    parser.add_argument("--titles", type=int, default=100)
    parser.add_argument("--cache", type=Path, help="a file of readings, so that a run goes on where one was killed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parts", default="gold,rank,float32,speed")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    engine = open_index(arguments.index)
    kept = ReadingFile(arguments.cache) if arguments.cache else None
    reader = CachedReader(TrainedReader.from_pretrained(arguments.reader, threads=arguments.threads), 200_000, kept)
    parts = arguments.parts.split(",")
    result: dict[str, Any] = {
        "_run": {
            "reader": reader.fingerprint,
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load when started": os.getloadavg()[0],
            "sample": arguments.sample,
            "deep": arguments.deep,
            "titles": arguments.titles,
        }
    }
    sets = {name: questions(arguments.data, name, arguments.sample) for name in ("squad-dev", "dev", "dev-who")}

    def note(name: str, value: Any) -> None:
        result[name] = value
        print(json.dumps({name: value}), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    began = time.perf_counter()
    if "gold" in parts:
        note("gold passage", {name: gold(reader, engine, asked) for name, asked in sets.items()})
    if "speed" in parts:
        pairs = bm25_passages(engine, sets["dev"][:20], 10)
        note("speed, one thread", bench_speed(pairs, arguments.reader, threads=1, rounds=3))
    if "rank" in parts:
        note("dev, BM25 top 20", judge(reader, engine, sets["dev"], 20, arguments.titles))
    if arguments.deep:
        note("dev, BM25 top 100", judge(reader, engine, sets["dev"][: arguments.deep], 100, titles=0))
    if "float32" in parts and arguments.float32:
        exact = CachedReader(TrainedReader.from_pretrained(arguments.float32, "float32", arguments.threads), 0, kept)
        note("float32, gold passage", {name: gold(exact, engine, asked) for name, asked in sets.items()})
        some = sets["dev"][:150]
        note("150 of dev, BM25 top 20, int8", judge(reader, engine, some, 20, titles=0))
        note("150 of dev, BM25 top 20, float32", judge(exact, engine, some, 20, titles=0))
    note("seconds", round(time.perf_counter() - began))


if __name__ == "__main__":
    main()
