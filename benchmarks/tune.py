"""Tuning on some questions, judged on others: what it takes and what it gains; and that no index need be rebuilt.

python benchmarks/tune.py --index INDEX --tune scifact/qrels/train.tsv --test scifact/qrels/test.tsv --rebuild 5

Questions without judgements are judged by their own passage. `--rebuild N`: N pairs of k1 and b, drawn from the grid,
are compared with an index of the same passages that is built with them, by the bits of all passages' scores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data import read_questions
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.workshop.ranking_setting import DEFAULT, Grid, Setting
from orienteer.workshop.tune import as_dict, exact_values, interval, tune

SAMPLE = 20  # questions whose scores are compared with those of a rebuilt index


def judged(file: Path) -> Iterator[Question]:
    for question in read_questions(file):
        if question.grades:
            yield question
        elif question.passage_id is not None:
            yield replace(question, judgements=((question.passage_id, 1),))


def compare_rebuilt(engine: EmbeddedEngine, questions: Sequence[Question], count: int, seed: int) -> dict[str, Any]:
    """How many of the questions' scores, [passages] each, are those of an index built with the same k1 and b."""
    grid, draw = Grid(), np.random.default_rng(seed)
    pairs = [(float(draw.choice(grid.k1)), float(draw.choice(grid.b))) for _ in range(count)]
    passages = [engine.passage_at(number) for number in range(len(engine))]
    own = bm25.K1, bm25.B
    compared = equal = 0
    try:
        for k1, b in pairs:
            setting = Setting(k1, b, 0.5, b, 0.25)
            queries = [setting.query(engine, each.question) for each in questions[:SAMPLE]]
            tabled = [engine.scores_with(query, setting.similarity) for query in queries]
            bm25.K1, bm25.B = np.float32(k1), np.float32(b)
            with tempfile.TemporaryDirectory(prefix="orienteer-tune-") as folder:
                build_index(passages, Path(folder) / "index", threads=1)
                rebuilt = open_index(Path(folder) / "index", threads=1)
                compared += len(queries)
                equal += sum(
                    scores.tobytes() == rebuilt.scores(query).tobytes()
                    for query, scores in zip(queries, tabled, strict=True)
                )
            bm25.K1, bm25.B = own
    finally:
        bm25.K1, bm25.B = own
    return {"pairs": pairs, "passages": len(engine), "queries": compared, "equal_to_the_bit": equal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--tune", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rebuild", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    engine = open_index(given.index)
    questions = list(islice(judged(given.tune), given.questions))
    tune(engine, questions[:5], Grid((1.2,), (0.75,), (0.0,), (0.75,), (0.0,)))  # compiles
    cpu = time.process_time()
    result = tune(engine, questions, seed=given.seed)
    row = as_dict(result) | {"cpu_s": round(time.process_time() - cpu, 1), "index": engine.fingerprint}
    test = list(judged(given.test))
    default, best = exact_values(engine, test, DEFAULT), exact_values(engine, test, result.best)
    row["test"] = {
        "questions": len(test), "default": float(default.mean()), "best": float(best.mean()),
        "difference": [float((best - default).mean()), *interval(best - default, given.seed)],
    }  # fmt: skip
    if given.rebuild:
        row["rebuilt"] = compare_rebuilt(engine, questions, given.rebuild, given.seed)
    print(json.dumps({name: value for name, value in row.items() if name != "curves"}, indent=1))
    if given.out:
        atomic_write(given.out, json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
