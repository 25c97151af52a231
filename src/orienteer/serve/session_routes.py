"""Routes of sessions: ask, look, refine, undo, branch, hand back, save, share, load."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from orienteer.agents import ConfiguredAgent
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import Refinement
from orienteer.serve.app_state import Desk, desk_of
from orienteer.serve.error_handlers import Problem
from orienteer.serve.requests import AskRequest, BranchRequest, HandBackRequest, RefineRequest, SessionId
from orienteer.serve.responses import SessionHead, SessionView, View, head_view, session_view, step_event
from orienteer.serve.sessions import Work, asked
from orienteer.serve.streaming import MEDIA_TYPE, event, with_heartbeat
from orienteer.session import UNDO, RecordError, from_line, to_line

log = logging.getLogger("orienteer.serve")
router = APIRouter(prefix="/api/sessions", tags=["sessions"])

Id = Annotated[SessionId, Path()]
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The session, whole; or streamed step by step, to a client that accepts text/event-stream",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
_MOST_LISTED = 200


class SessionList(View):
    """Sessions in memory and saved, the newest first."""

    sessions: list[SessionHead]


@router.post("", responses=_STREAMED, response_model=SessionView)
async def ask(request: Request, wanted: AskRequest) -> Response | SessionView:
    """Lets an agent search. A deadline that comes first leaves the session as far as it is, `stopped: deadline`."""
    desk = desk_of(request)
    desk.check_text(wanted.question)
    request.state.asked = wanted.question
    index = desk.index(wanted.index)
    entry = await asyncio.to_thread(desk.roster.entry, index, wanted.agent, wanted.steps)
    work = desk.bench.new(index, entry, asked(wanted.question, wanted.answers))
    return await _let_run(request, desk, work, entry, entry.settings.steps, desk.deadline(wanted.deadline))


@router.get("")
async def sessions(request: Request) -> SessionList:
    """What is on the bench and what is saved."""
    desk = desk_of(request)
    saved = await asyncio.to_thread(lambda: list(desk.bench.saved.newest(_MOST_LISTED)))
    heads = {work.id: head_view(work, False) for work in desk.bench.works()[:_MOST_LISTED] if not work.busy}
    for id, _, record in saved:
        heads[id] = head_view(desk.bench.from_record(id, record), True)
    return SessionList(sessions=list(heads.values()))


@router.get("/{id}")
async def session(request: Request, id: Id) -> SessionView:
    """A session as far as it is."""
    desk = desk_of(request)
    return _view(desk, desk.bench.get(id))


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: Id) -> Response:
    """Forgets a session, its file too."""
    desk_of(request).bench.delete(id)
    return Response(status_code=204)


@router.post("/{id}/refine")
async def refine(request: Request, id: Id, wanted: RefineRequest) -> SessionView:
    """One refinement of one's own; a term can be used once in a session."""
    desk = desk_of(request)
    request.state.asked = wanted.term
    return await _take(desk, id, Refinement(wanted.op, wanted.field, wanted.term, wanted.weight))


@router.post("/{id}/undo")
async def undo(request: Request, id: Id) -> SessionView:
    """Takes the query's last refinement back; passages seen stay seen."""
    return await _take(desk_of(request), id, UNDO)


@router.post("/{id}/agent", responses=_STREAMED, response_model=SessionView)
async def hand_back(request: Request, id: Id, wanted: HandBackRequest) -> Response | SessionView:
    """An agent goes on from here."""
    desk = desk_of(request)
    work = desk.bench.get(id)
    index = work.index or desk.index("")
    entry = await asyncio.to_thread(desk.roster.entry, index, wanted.agent or work.agent)
    return await _let_run(request, desk, work, entry, wanted.steps, desk.deadline(wanted.deadline))


@router.post("/{id}/branch", status_code=201)
async def branch(request: Request, id: Id, wanted: BranchRequest) -> SessionView:
    """A new session that went the same way up to a step."""
    desk = desk_of(request)
    work = desk.bench.get(id)
    await desk.bench.wake(work)
    return _view(desk, desk.bench.branch(work, wanted.step))


@router.post("/{id}/save")
async def save(request: Request, id: Id) -> SessionView:
    """Keeps the session on disk; it outlives the server."""
    desk = desk_of(request)
    work = desk.bench.get(id)
    await asyncio.to_thread(desk.bench.save, work)
    return _view(desk, work)


@router.get("/{id}/file", response_class=Response, responses={200: {"content": {"application/jsonl": {}}}})
async def file(request: Request, id: Id) -> Response:
    """The session as a file, to be shared: `orienteer show` reads it, and so does any workbench."""
    desk = desk_of(request)
    line = to_line(desk.bench.record(desk.bench.get(id)))
    name = f'attachment; filename="session-{id}.jsonl"'
    return Response(line, media_type="application/jsonl", headers={"content-disposition": name})


@router.post("/load", status_code=201)
async def load(request: Request, record: Annotated[dict[str, Any], Body()]) -> SessionView:
    """A session from a file. On the same index it can be continued, else looked at."""
    try:
        line = json.dumps(record, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not the record of a session: {error}") from None
    return open_record(desk_of(request), line)


def open_record(desk: Desk, line: str | bytes) -> SessionView:
    """Puts a record on the bench; one that says what no session can is refused."""
    recorded = from_line(line)
    try:
        session_view(desk.bench.from_record("checked-first", recorded), False)
        work = desk.bench.load(recorded)
        to_line(recorded)
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError, QueryError) as error:
        raise RecordError(f"a damaged record: {type(error).__name__}: {error}") from None
    return _view(desk, work)


async def _take(desk: Desk, id: str, action: Any) -> SessionView:
    work = desk.bench.get(id)
    await desk.bench.refine(work, action)
    desk.metrics.steps.labels("you").inc()
    return _view(desk, work)


async def _let_run(
    request: Request, desk: Desk, work: Work, entry: ConfiguredAgent, steps: int, deadline: float
) -> Response | SessionView:
    if MEDIA_TYPE in request.headers.get("accept", ""):
        return StreamingResponse(
            with_heartbeat(_events(desk, work, entry, steps, deadline)), media_type=MEDIA_TYPE,
            headers={"x-accel-buffering": "no"},
        )  # fmt: skip
    async for number in desk.bench.run(work, entry, steps, deadline):
        _count(desk, work, number)
    return _view(desk, work)


async def _events(desk: Desk, work: Work, entry: ConfiguredAgent, steps: int, deadline: float) -> AsyncIterator[bytes]:
    """What has begun cannot change its status any more, so an error is an event too."""
    run = desk.bench.run(work, entry, steps, deadline)
    try:
        yield event("session", _head(desk, work))
        async for number in run:
            _count(desk, work, number)
            yield event("step", step_event(work, number))
        yield event("end", _head(desk, work))
    except OrienteerError as error:
        yield event("error", Problem.of(error))
    except Exception:
        log.exception("a session failed")
        yield event("error", Problem(kind="ServerError", message="the server failed at this step; its log says why"))
    finally:
        await run.aclose()  # type: ignore[attr-defined]


def _count(desk: Desk, work: Work, number: int) -> None:
    desk.metrics.steps.labels("question" if number == 0 else "agent").inc()
    desk.metrics.step_seconds.observe(work.seconds[number])


def _view(desk: Desk, work: Work) -> SessionView:
    return session_view(work, work.id in desk.bench.saved)


def _head(desk: Desk, work: Work) -> SessionHead:
    return head_view(work, work.id in desk.bench.saved)
