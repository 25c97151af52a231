"""Write the golden files: a small made-up collection and what Lucene answers on it.

    python tests/engine/write_lucene_golden.py LUCENE_JAR

The words are few, so that ties, phrases, repeated clauses and rare combinations come up often.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from orienteer.data.passage import Passage
from orienteer.query import BOOSTS, Query, Refinement

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))

from lucene_bench import lucene_index, lucene_search  # noqa: E402

WORDS = [
    "river", "bridge", "castle", "king", "queen", "music", "song", "album", "film", "actor", "war", "battle",
    "city", "north", "south", "station", "train", "1991", "2018", "3.14", "u.s.a", "don't", "swift’s", "café",
    "Straße", "Россия", "東京", "tokyo-bay", "x-ray", "C++", "emoji😀word", "naïve", "İstanbul", "ΟΔΟΣ",
    "the", "of", "and", "in", "to", "is",
]  # fmt: skip
RARE = ["zeppelin", "x" * 300, "quasar", "ﬁsh", "co-op"]
ASKED = [*WORDS, "zeppelin", "quasar", "absent", "x" * 255]


def make_passages(rng: random.Random) -> list[Passage]:
    passages = [
        Passage("empty", "", ""),
        Passage("stops", "The", "of the and"),
        Passage("once", "", "zeppelin"),
        Passage("long", "River", " ".join(rng.choice(WORDS) for _ in range(400))),
    ]
    for number in range(60):
        title = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 60)))
        if number % 5 == 0:
            text += f", {rng.choice(RARE)}."
        passages.append(Passage(f"p{number:02}", "" if number % 6 == 0 else title, text))
    # Copies under other ids: ties, also at the edge of the top k.
    passages += [Passage(f"copy {p.id}", p.title, p.text) for p in passages[4:34]]
    return passages


def make_query(rng: random.Random) -> Query:
    def words(most: int) -> str:
        return " ".join(rng.choice(ASKED) for _ in range(rng.randint(1, most)))

    refinements = []
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 5])):
        op = rng.choice(["or", "+", "-", "^", "^"])
        field = "contents" if op == "or" else rng.choice(["contents", "title"])
        weight = rng.choice([*BOOSTS, 0.37, 1000.0]) if op == "^" else 1.0
        refinements.append(Refinement(op, field, words(rng.choice([1, 1, 1, 2, 3]))[:256], weight))
    question = "" if refinements and rng.random() < 0.2 else words(6)
    return Query(question, tuple(refinements))


def main(jar: str) -> None:
    rng = random.Random(20)
    passages = make_passages(rng)
    queries = [make_query(rng) for _ in range(300)]
    with tempfile.TemporaryDirectory() as index:
        lucene_index(jar, passages, index)
        answers = lucene_search(jar, index, queries, k=5, repeats=1, warmup=0)
    rows = [{"id": passage.id, "title": passage.title, "text": passage.text} for passage in passages]
    write("golden-passages.jsonl", rows)
    write("golden-hits.jsonl", [{"query": answer.query, "hits": answer.hits} for answer in answers])


def write(name: str, rows: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
