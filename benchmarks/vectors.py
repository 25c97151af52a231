"""Exact search over the vectors of an index: microseconds a question, one by one and together, one thread.

python benchmarks/vectors.py INDEX QUESTIONS [--limit 200]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from orienteer.data import read_questions
from orienteer.dense.index_vectors import open_vectors
from orienteer.engine import open_index


def microseconds(work: Callable[[], object], count: int) -> float:
    """CPU time of this process for each of `count` questions."""
    started = time.process_time()
    work()
    return (time.process_time() - started) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--limit", type=int, default=200)
    given = parser.parse_args()
    retriever = open_vectors(open_index(given.index, threads=1))
    texts = [question.question for question in islice(read_questions(given.questions), given.limit)]
    vectors = retriever.vectors(texts)
    retriever.search_vectors(vectors, 5)  # compiles, and brings the vectors into memory
    row = {
        "passages": retriever.manifest.passages,
        "width": retriever.manifest.width,
        "questions": len(texts),
        "encode": microseconds(lambda: retriever.vectors(texts), len(texts)),
        "search, one by one": microseconds(
            lambda: [retriever.search_vectors(vectors[q : q + 1], 5) for q in range(len(texts))], len(texts)
        ),
        "search, together": microseconds(lambda: retriever.search_vectors(vectors, 5), len(texts)),
    }
    print(json.dumps({name: round(value, 1) for name, value in row.items()}))


if __name__ == "__main__":
    main()
