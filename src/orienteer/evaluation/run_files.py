"""TREC run files, for every evaluation program: the result of each agent, and its result after each step.

    OUT/runs/AGENT.trec               the final five passages a question
    OUT/runs/AGENT.steps/03.trec      the best five after three refinements
    OUT/qrels.trec                    the judgements; without any, rel of every passage that any agent saw

The score column counts down from the list's length: such programs order by it and break ties by id, while equal PS
stand here as first seen. An id with white space in it is written percent-encoded.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from orienteer.data.atomic import atomic_write
from orienteer.evaluation.journal import EvaluationError
from orienteer.evaluation.summaries import Summary
from orienteer.session import Record

_BUFFER = 1 << 15


class RunFiles:
    """The run files of one agent, grown record by record, each put in its place when all are whole."""

    def __init__(self, out: Path, name: str, summary: Summary) -> None:
        self._tag = summary.name
        self._files = [_Growing(out / "runs" / f"{name}.trec")]
        if summary.refines:
            folder = out / "runs" / f"{name}.steps"
            width = max(2, len(str(summary.entry.settings.steps)))
            self._files += [_Growing(folder / f"{n:0{width}}.trec") for n in range(summary.entry.settings.steps + 1)]

    def add(self, record: Record) -> None:
        self._files[0].add(self._lines(record, record.best))
        for step, file in enumerate(self._files[1:]):
            best = record.steps[min(step, len(record.steps) - 1)].best if record.steps else ()
            file.add(self._lines(record, best))

    def finish(self) -> None:
        for file in self._files:
            file.finish()

    def _lines(self, record: Record, best: tuple[str, ...]) -> str:
        question, tag = token(record.question.id), token(self._tag)
        return "".join(
            f"{question} Q0 {token(id)} {rank} {len(best) + 1 - rank} {tag}\n" for rank, id in enumerate(best, 1)
        )


class Qrels:
    """rel of what the agents saw; a judged question of which nothing was seen still counts, by an empty line.

    With `more`, what the file already has stays: it is of agents whose sessions are not here.
    """

    def __init__(self, out: Path, *, more: bool = False) -> None:
        file = out / "qrels.trec"
        self._known = _judged(file) if more and file.exists() else {}
        self._file = _Growing(file)

    def add(self, records: list[Record]) -> None:
        """The records of all agents for one question."""
        question = records[0].question
        if not question.is_judged:
            return
        asked = token(question.id)
        seen = dict(self._known.get(asked, {}))
        if question.judgements:
            seen |= {token(id): str(grade) for id, grade in question.judgements}
        else:
            seen |= {token(id): str(int(bool(p.relevant))) for each in records for id, p in each.passages.items()}
        lines = "".join(f"{asked} 0 {id} {seen[id]}\n" for id in sorted(seen))
        self._file.add(lines or f"{asked} 0 - 0\n")

    def finish(self) -> None:
        self._file.finish()


def _judged(file: Path) -> dict[str, dict[str, str]]:
    """Question → passage → rel, as the file has them."""
    known: dict[str, dict[str, str]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            question, _, passage, rel = line.split()
        except ValueError:
            raise EvaluationError(f"{file}, line {number}: no judgement; expected four words, or no file") from None
        if passage != "-":
            known.setdefault(question, {})[passage] = rel
    return known


def token(text: str) -> str:
    """An id as one field of a line."""
    return text if text and not any(c.isspace() for c in text) else quote(text, safe="") or "-"


class _Growing:
    """A file that grows by small pieces under another name; no more than one is open at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.growing")
        self._waiting: list[str] = []
        self._size = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial.unlink(missing_ok=True)

    def add(self, text: str) -> None:
        self._waiting.append(text)
        self._size += len(text)
        if self._size > _BUFFER:
            self._write()

    def _write(self) -> None:
        with self._partial.open("ab") as file:
            file.write("".join(self._waiting).encode("utf-8", "replace"))
        self._waiting, self._size = [], 0

    def finish(self) -> None:
        self._write()
        with self._partial.open("rb") as file:
            atomic_write(self._path, iter(lambda: file.read(1 << 20), b""))
        self._partial.unlink()
