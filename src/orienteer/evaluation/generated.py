"""EM-T5: the answer generator's answers from each session's final passages.

    OUT/answers/AGENT.jsonl   {"generator": fingerprint}, then one answer a question: {"id", "answer"}

Generating is slow beside counting: a file that is there, from the same generator over the same journal, is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from orienteer.engine.protocol import Engine
from orienteer.evaluation.files import write_whole
from orienteer.reader.answers import exact_match
from orienteer.reader.snippets import snippet
from orienteer.session import ObservedPassage, Record

EM_T5 = "EM-T5"
ABOUT = "the answer generator's answer from the five passages is a gold answer"
_TOGETHER = 64

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


def exact_matches(
    generator: Generator, engine: Engine, journal: Path, records: Iterable[Record], file: Path
) -> list[float]:
    """1 or 0 for each question, NaN where no answer is known; `file` is where the answers are kept."""
    waiting = iter(records)
    told = {"generator": generator.fingerprint, "journal": blake2b(journal.read_bytes(), digest_size=16).hexdigest()}
    kept = _kept(file, told)
    found: list[float] = []
    lines = [_line(told)]
    while batch := list(islice(waiting, _TOGETHER)):
        answers = (
            list(islice(kept, len(batch))) if kept else generator.answer(list(_asked(batch, engine, generator.words)))
        )
        for record, answer in zip(batch, answers, strict=True):
            gold = record.question.answers
            found.append(float(exact_match(answer, gold)) if gold else np.nan)
            lines.append(_line({"id": record.question.id, "answer": answer}))
    write_whole(file, b"".join(lines))
    return found


def _asked(records: Sequence[Record], engine: Engine, words: int) -> Iterator[Asked]:
    """Each question with its final passages as the generator sees them."""
    passages = {p.id: p for p in engine.passages([id for record in records for id in record.best])}
    for record in records:
        seen = []
        for id in record.best:
            passage, read = passages[id], record.passages[id]
            shown = snippet(passage.text, read.start, read.end, words)
            seen.append(ObservedPassage(id, passage.title, shown, passage.text[read.start : read.end], read.score))
        yield record.question.question, seen


def _kept(file: Path, told: dict[str, str]) -> Iterator[str] | None:
    """The answers that a file holds; None where there is none of this generator and journal."""
    try:
        first, *rest = [json.loads(line) for line in file.read_bytes().splitlines()]
        return iter([str(row["answer"]) for row in rest]) if first == told else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
