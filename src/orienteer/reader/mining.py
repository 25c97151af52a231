"""Training rows for the reader: each question with passages that hold its answer and passages that do not.

Mined once from any engine and kept in one file, so that training needs neither engine nor corpus.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orienteer.data import Passage, Question, read_questions
from orienteer.data.atomic import atomic_path
from orienteer.data.compression import compressed, read_blocks
from orienteer.engine.protocol import Engine
from orienteer.errors import DataError, TrainingError
from orienteer.query import Query
from orienteer.reader.answer_matching import holds_answer_or_possessive

Span = tuple[int, int]  # character offsets into a passage's text, the end exclusive


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage as training sees it: no id. A negative has no spans.

    `teacher` is the logit that a teacher gives it, where one was asked (`teacher.py`).
    """

    title: str
    text: str
    spans: tuple[Span, ...] = ()
    teacher: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """`gold` is the annotated passage where there is one; `retrieved` hold an answer's words by chance or not."""

    question: str
    answers: tuple[str, ...]
    source: str
    gold: Evidence | None
    retrieved: tuple[Evidence, ...]
    negatives: tuple[Evidence, ...]

    @property
    def passages(self) -> tuple[Evidence, ...]:
        return (*((self.gold,) if self.gold else ()), *self.retrieved, *self.negatives)


@dataclass(frozen=True, slots=True)
class MiningConfig:
    depth: int = 200  # the paper draws from the BM25 top 200
    top: int = 20  # half of the draws come from here, where the reader will be used
    draws: int = 40  # passages looked at for each question
    negatives: int = 8  # kept at most, of any rank: false ones lead from deep down too
    retrieved: int = 3  # kept at most, the best ranked
    seed: int = 0
    batch: int = 256


def mine(questions: Iterable[Question], engine: Engine, config: MiningConfig | None = None) -> Iterator[TrainingRow]:
    """A row for each question that has a positive passage, in the questions' order."""
    config = config or MiningConfig()
    generator = random.Random(config.seed)
    for batch in _batches(questions, config.batch):
        ranked = engine.search_many([Query(q.question) for q in batch], config.depth)
        for question, hits in zip(batch, ranked, strict=True):
            ids = [hits[rank].id for rank in _ranks(len(hits), generator, config)]
            gold = question.passage_id
            found = engine.passages([*([gold] if gold else []), *(i for i in ids if i != gold)])
            row = _row(question, found, generator, config)
            if row.gold or row.retrieved:
                yield row


def _ranks(hits: int, generator: random.Random, config: MiningConfig) -> list[int]:
    """Ranks to look at, best first: half from the top, half from the whole depth."""
    top = generator.sample(range(min(config.top, hits)), min(config.draws // 2, config.top, hits))
    deep = generator.sample(range(hits), min(config.draws - config.draws // 2, hits))
    return sorted({*top, *deep})


def _row(question: Question, found: Sequence[Passage], generator: random.Random, config: MiningConfig) -> TrainingRow:
    gold = None
    if question.passage_id:
        gold, found = _gold(question, found[0]), found[1:]
    retrieved: list[Evidence] = []
    negatives: list[Evidence] = []
    for passage in found:
        if not holds_answer_or_possessive(passage.text, question.answers):
            negatives.append(Evidence(passage.title, passage.text))
        elif spans := occurrences(passage.text, question.answers):
            retrieved.append(Evidence(passage.title, passage.text, spans))
    return TrainingRow(
        question.question,
        question.answers,
        question.source,
        gold,
        tuple(retrieved[: config.retrieved]),
        tuple(generator.sample(negatives, min(config.negatives, len(negatives)))),
    )


def _gold(question: Question, passage: Passage) -> Evidence | None:
    """The annotated span, or every occurrence of the answer where the annotation does not fit the text."""
    for answer in question.answers:
        start = question.answer_start
        if start is not None and passage.text.startswith(answer, start):
            return Evidence(passage.title, passage.text, ((start, start + len(answer)),))
    spans = occurrences(passage.text, question.answers)
    return Evidence(passage.title, passage.text, spans) if spans else None


def occurrences(text: str, answers: Sequence[str], limit: int = 8) -> tuple[Span, ...]:
    """Where any of the answers stands in the text as whole words, whatever its case."""
    spans: set[Span] = set()
    for answer in answers:
        if answer.strip():
            pattern = re.compile(rf"(?<!\w){re.escape(answer.strip())}(?!\w)", re.IGNORECASE)
            spans.update(match.span() for match in pattern.finditer(text))
    return tuple(sorted(spans)[:limit])


def reading_rows(path: Path) -> Iterator[TrainingRow]:
    """Rows `{"question", "answers", "title", "text", "answer_start"}`: a gold passage, no search needed."""
    for line in _lines(path):
        row = json.loads(line)
        question = Question("", row["question"], tuple(row["answers"]), answer_start=row["answer_start"])
        if gold := _gold(question, Passage("", row["title"], row["text"])):
            yield TrainingRow(question.question, question.answers, "reading", gold, (), ())


def write_rows(path: Path, rows: Iterable[TrainingRow]) -> int:
    """Writes rows atomically, compressed as the suffix says; returns how many."""
    count = 0
    with atomic_path(path) as partial, partial.open("wb") as raw, compressed(raw, path) as out:
        for row in rows:
            out.write(json.dumps(_fields(row), ensure_ascii=False).encode() + b"\n")
            count += 1
    return count


def read_rows(path: Path) -> Iterator[TrainingRow]:
    """The rows that `write_rows` wrote."""
    for number, line in enumerate(_lines(path), 1):
        try:
            row = json.loads(line)
            yield TrainingRow(
                row["question"],
                tuple(row["answers"]),
                row["source"],
                _evidence(row["gold"]) if row["gold"] else None,
                tuple(map(_evidence, row["retrieved"])),
                tuple(map(_evidence, row["negatives"])),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: not a training row ({error!r}); mine the file again") from None


def _fields(row: TrainingRow) -> dict[str, Any]:
    return {
        "question": row.question,
        "answers": row.answers,
        "source": row.source,
        "gold": _evidence_fields(row.gold) if row.gold else None,
        "retrieved": list(map(_evidence_fields, row.retrieved)),
        "negatives": list(map(_evidence_fields, row.negatives)),
    }


def _evidence_fields(evidence: Evidence) -> dict[str, Any]:
    fields = {"title": evidence.title, "text": evidence.text, "spans": evidence.spans}
    return fields if evidence.teacher is None else {**fields, "teacher": evidence.teacher}


def _evidence(fields: dict[str, Any]) -> Evidence:
    spans = tuple((int(s), int(e)) for s, e in fields["spans"])
    return Evidence(fields["title"], fields["text"], spans, fields.get("teacher"))


def _lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for block in read_blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _batches(questions: Iterable[Question], size: int) -> Iterator[list[Question]]:
    batch: list[Question] = []
    for question in questions:
        batch.append(question)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def gather_rows(
    folder: Path,
    engine: Engine | None,
    questions: Sequence[Path],
    reading: Sequence[Path],
    mined: Sequence[Path],
    seed: int = 0,
) -> list[TrainingRow]:
    """All rows; those of `questions` are mined from the engine into `folder`, or read from there."""
    rows = [row for path in mined for row in read_rows(path)]
    for path in questions:
        # The name holds what decides the rows, so that another file or seed is mined anew.
        key = hashlib.sha256(f"{path.resolve()} {path.stat().st_size} {seed}".encode()).hexdigest()[:12]
        kept = folder / f"mined-{key}.jsonl.zst"
        if not kept.exists():
            if engine is None:
                raise TrainingError(f"{path}: its negatives are not mined yet; name the index to mine: --index DIR")
            folder.mkdir(parents=True, exist_ok=True)
            write_rows(kept, mine(read_questions(path), engine, MiningConfig(seed=seed)))
        rows += read_rows(kept)
    return rows + [row for path in reading for row in reading_rows(path)]
