"""A folder that `evaluate` wrote, to walk through: its figures, and its sessions by what became of them."""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orienteer.errors import OrienteerError
from orienteer.evaluation.journal import file_names
from orienteer.evaluation.measures import MEASURES
from orienteer.evaluation.summaries import action_type
from orienteer.query import Refinement
from orienteer.serve.errors import NoGalleryError
from orienteer.serve.responses import View
from orienteer.session import Record, from_line

# Whether a passage with an answer is among the best five: after the question alone, and at the end.
Kind = Literal["rescued", "lost", "kept", "missed", "unjudged"]
KINDS: Mapping[tuple[bool, bool], Kind] = {
    (False, True): "rescued", (True, False): "lost", (True, True): "kept", (False, False): "missed",
}  # fmt: skip
_AGENTS_KEPT = 8  # rows of so many agents stay in memory: some hundred bytes a session


class GalleryRow(View):
    number: int
    id: str
    question: str
    answer: str
    answers: list[str]
    kind: Kind
    operators: list[str]
    steps: int
    reward: float | None


class GalleryPage(View):
    """Some of the sessions that match; the counts are of all sessions of the agent, `found` of all that match."""

    agent: str
    rows: list[GalleryRow]
    found: int
    kinds: dict[str, int]
    operators: dict[str, int]


class MeasureView(View):
    name: str
    about: str
    percent: bool


class GalleryView(View):
    """The report's figures: a row an agent, in percent where the measure is a share."""

    agents: dict[str, dict[str, float]]
    measures: list[MeasureView]
    questions: int
    settings: dict[str, Any]
    index_fingerprint: str


@dataclass(frozen=True, slots=True)
class _Placed:
    """A row, and where its record stands in the file."""

    row: GalleryRow
    start: int
    size: int


class Gallery:
    """Read when asked for, an agent at a time; the folder may grow while it is looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: OrderedDict[tuple[str, float], list[_Placed]] = OrderedDict()
        self._lock = threading.Lock()
        self._metrics()

    def view(self) -> GalleryView:
        metrics = self._metrics()
        run = metrics.pop("_run", {})
        shown = {name for values in metrics.values() for name in values}
        return GalleryView(
            agents=metrics,
            measures=[
                MeasureView(name=each.name, about=each.about, percent=each.percent)
                for each in MEASURES.values()
                if each.name in shown
            ],
            questions=int(run.get("n", 0)),
            settings=run.get("settings", {}),
            index_fingerprint=str(run.get("index_fingerprint", "")),
        )

    def page(self, agent: str, kind: str, operator: str, text: str, offset: int, limit: int) -> GalleryPage:
        rows = [placed.row for placed in self._placed(agent)]
        words = text.lower().split()
        found = [
            row
            for row in rows
            if (not kind or row.kind == kind)
            and (not operator or operator in row.operators)
            and all(word in row.question.lower() for word in words)
        ]
        return GalleryPage(
            agent=agent, rows=found[offset : offset + limit], found=len(found),
            kinds=Counter(row.kind for row in rows),
            operators=Counter(operator for row in rows for operator in row.operators),
        )  # fmt: skip

    def record(self, agent: str, number: int) -> Record:
        rows = self._placed(agent)
        if not 0 <= number < len(rows):
            raise NoGalleryError(f"session {number}; {agent!r} has 0 to {len(rows) - 1}")
        with self._file(agent).open("rb") as file:
            file.seek(rows[number].start)
            return from_line(file.read(rows[number].size))

    def _placed(self, agent: str) -> list[_Placed]:
        file = self._file(agent)
        try:
            key = agent, file.stat().st_mtime
        except OSError:
            raise NoGalleryError(f"{file} is missing; run the evaluation to its end") from None
        with self._lock:
            if key not in self._rows:
                self._rows[key] = list(_read(file))
            self._rows.move_to_end(key)
            while len(self._rows) > _AGENTS_KEPT:
                self._rows.popitem(last=False)
            return self._rows[key]

    def _file(self, agent: str) -> Path:
        agents = [name for name in self._metrics() if name != "_run"]
        if agent not in agents:
            raise NoGalleryError(f"no agent {agent!r} in this evaluation; it has {', '.join(agents)}")
        return self._folder / "sessions" / f"{file_names(agents)[agent]}.jsonl"

    def _metrics(self) -> dict[str, Any]:
        try:
            metrics = json.loads((self._folder / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise NoGalleryError(
                f"{self._folder} holds no finished evaluation ({error}); name a folder that `orienteer evaluate` wrote"
            ) from None
        if not isinstance(metrics, dict):
            raise NoGalleryError(
                f"{self._folder}/metrics.json is not a table of agents; run `orienteer evaluate` again"
            )
        return metrics


def _read(file: Path) -> Iterator[_Placed]:
    start = 0
    with file.open("rb") as opened:
        for number, line in enumerate(opened):
            try:
                record = from_line(line)
            except OrienteerError as error:
                raise NoGalleryError(f"{file}, line {number + 1}: {error}") from None
            yield _Placed(_row(number, record), start, len(line))
            start += len(line)


def _row(number: int, record: Record) -> GalleryRow:
    actions = (step.action for step in record.steps)
    scores = [step.score.total for step in record.steps if step.score is not None]
    return GalleryRow(
        number=number, id=record.question.id, question=record.question.question, answer=record.answer,
        answers=list(record.question.answers), kind=kind_of(record),
        operators=list(dict.fromkeys(action_type(a) for a in actions if isinstance(a, Refinement))),
        steps=max(0, len(record.steps) - 1), reward=scores[-1] - scores[0] if scores else None,
    )  # fmt: skip


def kind_of(record: Record) -> Kind:
    if not record.question.answers:
        return "unjudged"
    if not record.steps:
        return "missed"
    before, after = (
        any(record.passages[id].relevant for id in step.best) for step in (record.steps[0], record.steps[-1])
    )
    return KINDS[before, after]
