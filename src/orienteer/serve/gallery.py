"""The gallery: figures and sessions of a folder that `evaluate` wrote; sessions can be filtered by their outcome."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from orienteer.errors import OrienteerError
from orienteer.evaluation.journal import file_names
from orienteer.evaluation.measures import MEASURES
from orienteer.evaluation.summaries import action_type
from orienteer.query import Refinement
from orienteer.serve.app_state import state_of
from orienteer.serve.errors import NoGalleryError
from orienteer.serve.schemas import AgentName, ResponseModel, SessionView
from orienteer.serve.session_routes import open_record
from orienteer.session import Record, from_line

log = logging.getLogger("orienteer.serve")
router = APIRouter(prefix="/api/gallery", tags=["gallery"])

# Whether a passage with an answer is among the best five: after the question alone, and at the end.
Kind = Literal["rescued", "lost", "kept", "missed", "unjudged"]
KINDS: Mapping[tuple[bool, bool], Kind] = {
    (False, True): "rescued", (True, False): "lost", (True, True): "kept", (False, False): "missed",
}  # fmt: skip
_MAX_AGENTS = 8  # whose rows stay in memory: some hundred bytes a session


class GalleryRow(ResponseModel):
    number: int
    id: str
    question: str
    answer: str
    answers: list[str]
    kind: Kind
    operators: list[str]
    steps: int
    reward: float | None


class GalleryPage(ResponseModel):
    """Some of the sessions that match; the counts are of all sessions of the agent, `found` of all that match."""

    agent: str
    rows: list[GalleryRow]
    found: int
    kinds: dict[str, int]
    operators: dict[str, int]


class MeasureView(ResponseModel):
    name: str
    about: str
    percent: bool


class GalleryView(ResponseModel):
    """The report's figures: a row an agent, in percent where the measure is a share."""

    agents: dict[str, dict[str, float]]
    measures: list[MeasureView]
    questions: int
    settings: dict[str, Any]
    index_fingerprint: str


@dataclass(frozen=True, slots=True)
class _StoredRow:
    """A row and its record's bytes in the file: `size` of them from `start`."""

    row: GalleryRow
    start: int
    size: int


class Gallery:
    """Reads one agent's sessions when they are requested; the folder may still grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: OrderedDict[tuple[str, float], list[_StoredRow]] = OrderedDict()
        self._lock = threading.Lock()
        self._metrics()

    def view(self) -> GalleryView:
        metrics = self._metrics()
        run = metrics.pop("_run", None)
        run = run if isinstance(run, dict) else {}
        settings = run.get("settings")
        metrics = {name: figures for name, values in metrics.items() if (figures := _figures(values))}
        measured = {name for values in metrics.values() for name in values}
        return GalleryView(
            agents=metrics,
            measures=[
                MeasureView(name=each.name, about=each.about, percent=each.percent)
                for each in MEASURES.values()
                if each.name in measured
            ],
            questions=n if isinstance(n := run.get("n", 0), int) else 0,
            settings=settings if isinstance(settings, dict) else {},
            index_fingerprint=str(run.get("index_fingerprint", "")),
        )

    def page(self, agent: str, kind: str, operator: str, text: str, offset: int, limit: int) -> GalleryPage:
        rows = [stored.row for stored in self._stored_rows(agent)]
        words = text.lower().split()
        matching = [
            row
            for row in rows
            if (not kind or row.kind == kind)
            and (not operator or operator in row.operators)
            and all(word in row.question.lower() for word in words)
        ]
        return GalleryPage(
            agent=agent, rows=matching[offset : offset + limit], found=len(matching),
            kinds=Counter(row.kind for row in rows),
            operators=Counter(operator for row in rows for operator in row.operators),
        )  # fmt: skip

    def record(self, agent: str, number: int) -> Record:
        rows = self._stored_rows(agent)
        if not 0 <= number < len(rows):
            raise NoGalleryError(f"session {number}; {agent!r} has 0 to {len(rows) - 1}")
        with self._file(agent).open("rb") as file:
            file.seek(rows[number].start)
            return from_line(file.read(rows[number].size))

    def _stored_rows(self, agent: str) -> list[_StoredRow]:
        file = self._file(agent)
        try:
            key = agent, file.stat().st_mtime
        except OSError:
            raise NoGalleryError(f"{file} is missing; run the evaluation to its end") from None
        with self._lock:
            if key not in self._rows:
                self._rows[key] = list(_read(file))
            self._rows.move_to_end(key)
            while len(self._rows) > _MAX_AGENTS:
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
            json.dumps(metrics, ensure_ascii=False).encode()  # raises where a name holds half a character
        except (OSError, ValueError, RecursionError) as error:
            raise NoGalleryError(
                f"{self._folder} holds no finished evaluation ({error}); name a folder that `orienteer evaluate` wrote"
            ) from None
        if not isinstance(metrics, dict):
            raise NoGalleryError(
                f"{self._folder}/metrics.json is not a table of agents; run `orienteer evaluate` again"
            )
        return metrics


def _figures(values: object) -> dict[str, float]:
    """The finite numbers of an agent's entry in a file that may be anybody's."""
    if not isinstance(values, dict):
        return {}
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and abs(value) < 1e12  # neither NaN nor what JSON cannot hold
    }


def _read(file: Path) -> Iterator[_StoredRow]:
    """The rows of a file; a line that holds no record is left out, and the log names it."""
    start = number = 0
    with file.open("rb") as opened:
        for place, line in enumerate(opened, 1):
            try:
                yield _StoredRow(_row(number, from_line(line)), start, len(line))
                number += 1
            except (OrienteerError, KeyError, ValueError) as error:
                log.warning("%s, line %d is left out: %s", file, place, error)
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


_Agent = Annotated[AgentName, Query()]
_Filter = Annotated[str, Query(max_length=200)]


@router.get("")
async def gallery(request: Request) -> GalleryView:
    """The evaluation's figures, a row an agent."""
    return await asyncio.to_thread(_gallery(request).view)


@router.get("/sessions")
async def gallery_sessions(
    request: Request,
    agent: _Agent,
    kind: Annotated[Kind | Literal[""], Query(description="what became of the best five")] = "",
    operator: Annotated[_Filter, Query(description="an operator that was used, as in `-t`")] = "",
    text: Annotated[_Filter, Query(description="words of the question")] = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> GalleryPage:
    """An agent's sessions: rescued, lost, kept, missed; by operator; by words."""
    return await asyncio.to_thread(_gallery(request).page, agent, kind, operator, text, offset, limit)


@router.post("/open", status_code=201, response_model=SessionView)
async def open_session(request: Request, agent: _Agent, number: Annotated[int, Query(ge=0, le=10_000_000)]) -> Response:
    """Opens a session of the gallery, where it can be looked at and, on its own index, continued."""
    gallery = _gallery(request)
    return await open_record(state_of(request), lambda: gallery.record(agent, number))


def _gallery(request: Request) -> Gallery:
    gallery: Gallery | None = request.app.state.gallery
    if gallery is None:
        raise NoGalleryError("this server shows no evaluation; start it with --evaluation FOLDER")
    return gallery
