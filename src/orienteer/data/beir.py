"""A BEIR folder: `corpus.jsonl`, `queries.jsonl`, and judgements in `qrels/*.tsv`, a file a split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from orienteer.data import tsv
from orienteer.data.compression import SUFFIXES, plain_name
from orienteer.data.passage import Question
from orienteer.data.rows import Fault, Report, check_id

Qrels = dict[str, dict[str, int]]
"""Query id → passage id → grade."""


def part(folder: Path, name: str) -> Path | None:
    """The folder's file of this name, plain or compressed."""
    names = (name, *(name + suffix for suffix in SUFFIXES))
    return next((path for path in map(folder.joinpath, names) if path.is_file()), None)


def judgement_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("qrels/*") if plain_name(path).lower().endswith(".tsv"))


def judge(qrels: Qrels, blocks: Iterable[bytes], bad: Report) -> None:
    """Adds the judgements of a file to `qrels`."""
    for number, (query, passage, grade) in tsv.table(blocks, bad, ("query-id", "corpus-id", "score")):
        try:
            qrels.setdefault(check_id(query, "query-id"), {})[check_id(passage, "corpus-id")] = int(grade)
        except Fault as fault:
            bad(number, fault)
        except ValueError:
            bad(number, Fault(f'the "score" is {grade[:20]!r}; expected a whole number'))


def with_gold(question: Question, qrels: Qrels) -> Question:
    """The question with the passage judged best for it, the first of equals; unchanged where none is."""
    grades = qrels.get(question.id, {})
    best = max(grades, key=grades.__getitem__, default=None)
    return replace(question, passage_id=best) if best is not None and grades[best] > 0 else question
