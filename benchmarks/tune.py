"""Tuning on one split of a judged set, judged on another: what it takes and what it gains.

python benchmarks/tune.py --index INDEX --tune scifact/qrels/train.tsv --test scifact/qrels/test.tsv --questions 200
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np

from orienteer.data import read_questions
from orienteer.data.atomic import atomic_write
from orienteer.engine.embedded.engine import open_index
from orienteer.workshop.tune import DEFAULT, as_dict, exact_values, tune


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--tune", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    engine = open_index(given.index)
    questions = list(islice(read_questions(given.tune), given.questions))
    cpu = time.process_time()
    result = tune(engine, questions)
    row = as_dict(result) | {"cpu_s": round(time.process_time() - cpu, 1), "index": engine.fingerprint}
    test = [question for question in read_questions(given.test) if question.grades]
    default, best = exact_values(engine, test, DEFAULT), exact_values(engine, test, result.best)
    draws = np.random.default_rng(0).integers(0, len(test), (2000, len(test)))
    differences = (best - default)[draws].mean(axis=1)
    row["test"] = {
        "questions": len(test), "default": float(default.mean()), "best": float(best.mean()),
        "difference": [float((best - default).mean()), *np.quantile(differences, [0.025, 0.975]).tolist()],
    }  # fmt: skip
    print(json.dumps({name: value for name, value in row.items() if name != "curves"}, indent=1))
    if given.out:
        atomic_write(given.out, json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
