"""A BEIR folder: `corpus.jsonl`, `queries.jsonl`, and judgements in `qrels/*.tsv`, a file a split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from orienteer.data import tsv
from orienteer.data.compression import SUFFIXES, plain_name
from orienteer.data.passage import Question
from orienteer.data.rows import Fault, Report, check_id, decoded, filled_lines

Qrels = dict[str, dict[str, int]]
"""Query id → passage id → grade."""

_COLUMNS = ("query-id", "corpus-id", "score")


def part(folder: Path, name: str) -> Path | None:
    """The folder's file of this name, plain or compressed."""
    names = (name, *(name + suffix for suffix in SUFFIXES))
    return next((path for path in map(folder.joinpath, names) if path.is_file()), None)


def judgement_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("qrels/*") if plain_name(path).lower().endswith(".tsv"))


def judge(qrels: Qrels, blocks: Iterable[bytes], bad: Report) -> None:
    """Adds the judgements of a file to `qrels`: BEIR's table with a header, or TREC's four columns without one."""
    blocks = iter(blocks)
    first = next(blocks, b"")
    header = first.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].split()
    whole = chain([first], blocks)
    rows = _trec_rows(whole, bad) if len(header) == 4 and _is_grade(header[3]) else tsv.table(whole, bad, _COLUMNS)
    for number, (query, passage, grade) in rows:
        try:
            qrels.setdefault(check_id(query, "query-id"), {})[check_id(passage, "corpus-id")] = int(grade)
        except Fault as fault:
            bad(number, fault)
        except ValueError:
            bad(number, Fault(f'the "score" is {grade[:20]!r}; expected a whole number'))


def _trec_rows(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, list[str]]]:
    """Query, passage and grade of each line `query iteration passage grade`."""
    for number, line in filled_lines(blocks):
        try:
            columns = decoded(line).split()
            if len(columns) != 4:
                raise Fault(f"{len(columns)} columns; expected TREC's four: query, iteration, passage, grade")
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, [columns[0], columns[2], columns[3]]


def _is_grade(text: bytes) -> bool:
    return text.removeprefix(b"-").isdigit()


def with_judgements(question: Question, qrels: Qrels) -> Question:
    """The question with its judgements, and the passage judged best, the first of equals; unchanged without any."""
    grades = qrels.get(question.id, {})
    best = max(grades, key=grades.__getitem__, default=None)
    if best is None:
        return question
    gold = best if grades[best] > 0 else question.passage_id
    return replace(question, passage_id=gold, judgements=tuple(grades.items()))
