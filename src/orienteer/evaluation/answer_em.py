"""EM-T5: the answer generator's answers from each session's final passages.

    OUT/answers/AGENT.jsonl   {"generator", "index", "asked"}, then one answer a question: {"id", "answer"}

Generating is slow beside counting: a file that is there, from the same generator over the same passages, is taken, and
agents that end with the same passages share an answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.query.refinement import clean
from orienteer.reader.answer_matching import answer_forms, exact_match
from orienteer.reader.decoding import snippet
from orienteer.session import ObservedPassage, Record

EM_T5 = "EM-T5"
ABOUT = "the answer generator's answer from the five passages is a gold answer"
_TOGETHER = 64

Final = tuple[str, int, int, float]  # one of a session's final passages: id, its answer's start and end, PS
Asked = tuple[str, Sequence[ObservedPassage]]


class Generator(Protocol):
    """An answer depends on its question and passages alone; `words` is how many of a passage it sees."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def words(self) -> int: ...

    def answer(self, batch: Sequence[Asked]) -> Sequence[str]:
        """One answer for each question, empty where there is none."""
        ...


def final_passages(record: Record) -> list[Final]:
    return [(id, read.start, read.end, read.score) for id in record.best for read in [record.passages[id]]]


def exact_matches(
    generator: Generator, engine: Engine, questions: Sequence[Question], finals: Sequence[Sequence[Final]], file: Path,
    known: dict[str, str],
) -> list[float]:  # fmt: skip
    """1 or 0 for each question from its final passages, NaN where no answer is known.

    `file` keeps the answers; `known` are those that other agents led to, and takes these in.
    """
    texts = [clean(question.question) for question in questions]
    rows = list(zip(texts, finals, strict=True))
    keys = list(map(json.dumps, rows))
    asked = blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()
    header = {"generator": generator.fingerprint, "index": fingerprint_of(engine), "asked": asked}
    if kept := _kept(file, header, len(rows)):
        known.update(zip(keys, kept, strict=True))
    new = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
    known.update(zip(new, _answers(generator, engine, list(new.values())), strict=True))
    answers = [known[key] for key in keys]
    lines = [{"id": clean(question.id), "answer": answer} for question, answer in zip(questions, answers, strict=True)]
    atomic_write(file, map(_line, [header, *lines]))
    golds = ([gold for gold in question.answers if answer_forms((gold,))] for question in questions)
    return [float(exact_match(each, gold)) if gold else np.nan for each, gold in zip(answers, golds, strict=True)]


def _answers(generator: Generator, engine: Engine, rows: Sequence[tuple[str, Sequence[Final]]]) -> Iterator[str]:
    for start in range(0, len(rows), _TOGETHER):
        yield from generator.answer(list(_asked(rows[start : start + _TOGETHER], engine, generator.words)))


def _asked(rows: Sequence[tuple[str, Sequence[Final]]], engine: Engine, words: int) -> Iterator[Asked]:
    """Each question with its final passages as the generator sees them."""
    passages = {p.id: p for p in engine.passages([id for _, final in rows for id, *_ in final])}
    for question, final in rows:
        seen = []
        for id, start, end, score in final:
            passage = passages[id]
            shown = snippet(passage.text, start, end, words)
            seen.append(ObservedPassage(id, passage.title, shown, passage.text[start:end], score))
        yield question, seen


def _kept(file: Path, header: dict[str, str], count: int) -> list[str] | None:
    """The answers that a file holds; None where it does not hold all of this generator and these passages."""
    try:
        first, *rest = [json.loads(line) for line in file.read_bytes().splitlines()]
        return [str(row["answer"]) for row in rest] if first == header and len(rest) == count else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
