"""Three rules of when a text holds an answer, beside the one that is in use: how often they differ, and where.

python results/relevance/compare.py INDEX QUESTIONS... [--each 200] [--out counts.json]

Of each file so many questions are drawn, with seed 29; the first five hits of each are judged. The file has counts and
ids, no texts.
"""

from __future__ import annotations

import argparse
import json
import random
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orienteer.data import read_questions
from orienteer.engine.open import open_engine
from orienteer.query import Query
from orienteer.reader.answer_matching import holds_answer, holds_answer_loosely, holds_answer_or_possessive


def dpr_tokens(text: str) -> list[str]:
    """DPR's SimpleTokenizer, uncased: runs of letters, digits and marks, and every other visible sign by itself."""
    tokens, word = [], ""
    for letter in unicodedata.normalize("NFD", text).lower() + " ":
        kind = unicodedata.category(letter)[0]
        if kind in "LNM":
            word += letter
            continue
        tokens += [word] if word else []
        tokens += [letter] if kind not in "ZC" else []
        word = ""
    return tokens


def dpr(text: str, answers: Sequence[str]) -> bool:
    there = dpr_tokens(text)
    golds = [tokens for answer in answers if (tokens := dpr_tokens(answer))]
    return any(there[i : i + len(gold)] == gold for gold in golds for i in range(len(there) - len(gold) + 1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("index", type=Path)
    options.add_argument("questions", type=Path, nargs="+")
    options.add_argument("--each", type=int, default=200)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    draw, asked = random.Random(29), []
    for file in given.questions:
        known = [question for question in read_questions(file) if question.answers]
        asked += draw.sample(known, min(given.each, len(known)))
    engine = open_engine(given.index)
    counts: Counter[str] = Counter()
    differing = []
    for question, hits in zip(asked, engine.search_many([Query(each.question) for each in asked], 5), strict=True):
        for passage in engine.passages([hit.id for hit in hits]):
            verdicts = {
                "possessives": holds_answer_or_possessive(passage.text, question.answers),
                "tokens": holds_answer(passage.text, question.answers),
                "dpr": dpr(passage.text, question.answers),
                "substring": holds_answer_loosely(passage.text, question.answers),
            }
            counts.update(rule for rule, held in verdicts.items() if held)
            counts["passages"] += 1
            if len(set(verdicts.values())) > 1:
                differing.append([question.id, passage.id, [rule for rule, held in verdicts.items() if held]])
    kinds = Counter(" and ".join(rules) for _, _, rules in differing)
    found = {"questions": len(asked), **counts, "differing": dict(kinds.most_common())}
    print(json.dumps(found, indent=2))
    if given.out:
        rows = ",\n    ".join(json.dumps(row) for row in differing)
        given.out.write_text(json.dumps(found, indent=2)[:-2] + f',\n  "where": [\n    {rows}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
