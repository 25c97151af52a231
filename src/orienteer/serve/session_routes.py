"""Routes of sessions: ask, view, refine, undo, branch, hand back, save, share, load.

A session is streamed as server-sent events: `session`, `step` …, then `end` or `error`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request, Response
from pydantic import ValidationError

from orienteer.agents import ConfiguredAgent
from orienteer.agents.registry import sees_answers
from orienteer.data.passage import Question
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import Refinement
from orienteer.serve.app_state import AppState, state_of
from orienteer.serve.errors import ClientGoneError
from orienteer.serve.event_stream import EVENTS, MEDIA_TYPE, event, streamed
from orienteer.serve.schemas import (
    AskRequest,
    BranchRequest,
    HandBackRequest,
    RefineRequest,
    ResponseModel,
    SessionHead,
    SessionId,
    SessionView,
    head_view,
    session_view,
    step_event,
)
from orienteer.serve.sessions import ServedSession
from orienteer.session import UNDO, Record, RecordError, Undo, from_line, to_line

T = TypeVar("T")

router = APIRouter(prefix="/api/sessions", tags=["sessions"])

Id = Annotated[SessionId, Path()]
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The session, whole; or streamed step by step, to a client that accepts text/event-stream",
        "content": EVENTS,
    }
}
_MAX_LISTED = 200
_SMALL = 64 << 10  # bytes of a session that is shown in the event loop
_RECORD = {"required": True, "content": {"application/json": {"schema": {"type": "object", "title": "Record"}}}}


class SessionList(ResponseModel):
    """Sessions in memory and saved, the newest first."""

    sessions: list[SessionHead]


@router.post("", responses=_STREAMED, response_model=SessionView)
async def ask(request: Request, wanted: AskRequest) -> Response:
    """Lets an agent search. A deadline that comes first leaves the session as far as it is, `stopped: deadline`."""
    state = state_of(request)
    state.check_text(wanted.question)
    request.state.query_text = wanted.question
    if sees_answers(wanted.agent) and not wanted.answers:
        raise OrienteerError(f"the agent {wanted.agent!r} searches by known answers; give `answers`")
    index = state.index(wanted.index)
    configured = await asyncio.to_thread(state.agents.get, index, wanted.agent, wanted.steps, wanted.where)
    served = state.sessions.new(index, configured, Question("ask", wanted.question, tuple(wanted.answers)))
    served.where = wanted.where.strip()
    return await _run(request, state, served, configured, configured.settings.steps, state.deadline(wanted.deadline))


@router.get("")
async def sessions(request: Request) -> SessionList:
    """Sessions in memory and saved sessions."""
    state = state_of(request)
    newest = [served.snapshot() for served in state.sessions.newest_first()[:_MAX_LISTED] if not served.busy]

    def heads() -> list[SessionHead]:
        by_id = {served.id: head_view(served, False) for served in newest}
        for id, record in state.sessions.store.newest(_MAX_LISTED):
            by_id[id] = head_view(state.sessions.from_record(id, record), True)
        return list(by_id.values())

    return SessionList(sessions=await asyncio.to_thread(heads))


@router.get("/{id}", response_model=SessionView)
async def session(request: Request, id: Id) -> Response:
    """A session as far as it is."""
    state = state_of(request)
    return await _view(state, state.sessions.get(id))


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: Id) -> Response:
    """Forgets a session, its file too."""
    state_of(request).sessions.delete(id)
    return Response(status_code=204)


@router.post("/{id}/refine", response_model=SessionView)
async def refine(request: Request, id: Id, wanted: RefineRequest) -> Response:
    """One refinement of one's own; a term can be used once in a session."""
    request.state.query_text = wanted.term
    return await _take(request, id, Refinement(wanted.op, wanted.field, wanted.term, wanted.weight))


@router.post("/{id}/undo", response_model=SessionView)
async def undo(request: Request, id: Id) -> Response:
    """Takes the query's last refinement back; passages seen stay seen."""
    return await _take(request, id, UNDO)


@router.post("/{id}/agent", responses=_STREAMED, response_model=SessionView)
async def hand_back(request: Request, id: Id, wanted: HandBackRequest) -> Response:
    """An agent goes on from here."""
    state = state_of(request)
    served = state.sessions.get(id)
    index = served.index or state.index("")
    configured = await asyncio.to_thread(state.agents.get, index, wanted.agent or served.agent, None, served.where)
    return await _run(request, state, served, configured, wanted.steps, state.deadline(wanted.deadline))


@router.post("/{id}/branch", status_code=201, response_model=SessionView)
async def branch(request: Request, id: Id, wanted: BranchRequest) -> Response:
    """A new session that went the same way up to a step."""
    state = state_of(request)
    served = state.sessions.get(id)
    return await _view(state, await _unless_gone(request, state.sessions.branch(served, wanted.step)), 201)


@router.post("/{id}/save", response_model=SessionView)
async def save(request: Request, id: Id) -> Response:
    """Keeps the session on disk; it outlives the server."""
    state = state_of(request)
    served = state.sessions.get(id)
    await asyncio.to_thread(state.sessions.save, served)
    return await _view(state, served)


@router.get("/{id}/file", response_class=Response, responses={200: {"content": {"application/jsonl": {}}}})
async def file(request: Request, id: Id) -> Response:
    """The session as a file, to be shared: `orienteer show` reads it, and so does any workbench."""
    state = state_of(request)
    line = to_line(state.sessions.record(state.sessions.get(id)))
    name = f'attachment; filename="session-{id}.jsonl"'
    return Response(line, media_type="application/jsonl", headers={"content-disposition": name})


@router.post("/load", status_code=201, response_model=SessionView, openapi_extra={"requestBody": _RECORD})
async def load(request: Request) -> Response:
    """A session from a file. On the same index it can be continued, else looked at."""
    line = await request.body()
    return await open_record(state_of(request), lambda: from_line(line))


async def open_record(state: AppState, read: Callable[[], Record]) -> Response:
    """A session from a record; a record that no session could have made is an error.

    Reading and showing two megabytes takes a while: it is done beside the loop.
    """

    def checked() -> tuple[Record, SessionView]:
        recorded = read()
        try:
            return recorded, session_view(state.sessions.from_record("checked-first", recorded), False)
        except (ValidationError, KeyError, TypeError, ValueError, AttributeError, QueryError) as error:
            raise RecordError(f"a damaged record: {type(error).__name__}: {error}") from None

    recorded, view = await asyncio.to_thread(checked)
    served = state.sessions.load(recorded)
    view = view.model_copy(update={"id": served.id})
    return Response(await asyncio.to_thread(view.model_dump_json), 201, media_type="application/json")


async def _take(request: Request, id: str, action: Refinement | Undo) -> Response:
    state = state_of(request)
    served = state.sessions.get(id)
    await _unless_gone(request, state.sessions.refine(served, action))
    state.metrics.steps.labels("you").inc()
    return await _view(state, served)


async def _run(
    request: Request, state: AppState, served: ServedSession, configured: ConfiguredAgent, steps: int, deadline: float
) -> Response:
    if MEDIA_TYPE in request.headers.get("accept", ""):
        return streamed(_events(state, served, configured, steps, deadline))
    await _unless_gone(request, _run_to_end(state, served, configured, steps, deadline))
    return await _view(state, served)


async def _run_to_end(
    state: AppState, served: ServedSession, configured: ConfiguredAgent, steps: int, deadline: float
) -> None:
    async with contextlib.aclosing(state.sessions.run(served, configured, steps, deadline)) as run:
        async for number in run:
            _count(state, served, number)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which is cancelled as soon as the client is gone."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError("the client closed the connection before its answer was ready")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(
    state: AppState, served: ServedSession, configured: ConfiguredAgent, steps: int, deadline: float
) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(state.sessions.run(served, configured, steps, deadline)) as run:
        yield event("session", await _head(state, served))
        async for number in run:
            _count(state, served, number)
            shown = served.snapshot()
            yield event("step", await _shown(shown, partial(step_event, shown, number)))
        yield event("end", await _head(state, served))


def _count(state: AppState, served: ServedSession, number: int) -> None:
    state.metrics.steps.labels("question" if number == 0 else "agent").inc()
    state.metrics.step_seconds.observe(served.seconds[number])


async def _view(state: AppState, served: ServedSession, status: int = 200) -> Response:
    """The session as JSON."""
    shown = served.snapshot()
    json = await _shown(shown, lambda: session_view(shown, shown.id in state.sessions.store).model_dump_json())
    return Response(json, status, media_type="application/json")


async def _head(state: AppState, served: ServedSession) -> SessionHead:
    shown = served.snapshot()
    return await _shown(shown, lambda: head_view(shown, shown.id in state.sessions.store))


async def _shown(served: ServedSession, show: Callable[[], T]) -> T:
    """A session that read much takes a while to show, so that is done beside the loop.

    A small one takes a millisecond. A thread for it would wait for a core, and then the loop again.
    """
    return show() if served.size <= _SMALL else await asyncio.to_thread(show)
