"""nDCG@10 of BM25 on judged sets: what `evaluate` says, beside ir-measures on Lucene's own run.

python benchmarks/judged_bm25.py --lucene-jar JARS scifact cranfield 2wikimultihopqa > bm25-lucene.json

Ours is the first thousand passages of the agent `bm25` as `evaluate` judges them. Lucene's is that of its own index of
the same passages, asked through the adapter.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np

from orienteer.data import read_passages, read_questions
from orienteer.data.passage import Question
from orienteer.engine.adapters.lucene import LuceneEngine
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import open_index
from orienteer.evaluation.ranking_measures import measure_rankings
from orienteer.query import Query

DEPTH = 1000


def compare(folder: Path, jar: str) -> dict[str, Any]:
    passages = list(read_passages(folder))
    test = folder / "qrels" / "test.tsv"
    questions = list(read_questions(test if test.is_file() else folder))
    ours = of_index(passages, questions)
    lucene = LuceneEngine(jar, passages)
    run = [
        ir_measures.ScoredDoc(each.id, hit.id, hit.score)
        for each in questions for hit in lucene.search(Query(each.question), DEPTH)
    ]  # fmt: skip
    lucene.close()
    qrels = [ir_measures.Qrel(each.id, id, grade) for each in questions for id, grade in each.judgements]
    theirs = {each.query_id: float(each.value) for each in ir_measures.iter_calc([ir_measures.nDCG @ 10], qrels, run)}
    own, other = (np.array([values.get(each.id, 0.0) for each in questions]) for values in (ours, theirs))
    return {
        "questions": len(questions), "evaluate": round(float(own.mean()), 6), "lucene": round(float(other.mean()), 6),
        "difference": round(float((own - other).mean()), 6), "questions_that_differ": int((own != other).sum()),
    }  # fmt: skip


def of_index(passages: list[Any], questions: list[Question]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="orienteer-judged-") as place:
        build_index(passages, Path(place) / "index", threads=1)
        engine = open_index(Path(place) / "index", threads=1)
        rankings = {each.id: [hit.id for hit in engine.search(Query(each.question), DEPTH)] for each in questions}
    return measure_rankings(rankings, {each.id: each.grades for each in questions})["nDCG@10"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--lucene-jar", required=True)
    given = parser.parse_args()
    print(json.dumps({folder.name: compare(folder, given.lucene_jar) for folder in given.folders}, indent=1))


if __name__ == "__main__":
    main()
