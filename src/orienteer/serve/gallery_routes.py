"""Routes of the gallery: an evaluation's figures and sessions."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from orienteer.serve.app_state import Desk, desk_of
from orienteer.serve.errors import NoGalleryError
from orienteer.serve.gallery import Gallery, GalleryPage, GalleryView, Kind
from orienteer.serve.requests import AgentName
from orienteer.serve.responses import SessionView
from orienteer.serve.session_routes import open_record
from orienteer.session import to_line

router = APIRouter(prefix="/api/gallery", tags=["gallery"])

_Agent = Annotated[AgentName, Query()]
_Filter = Annotated[str, Query(max_length=200)]


@router.get("")
async def gallery(request: Request) -> GalleryView:
    """The evaluation's figures, a row an agent."""
    return await asyncio.to_thread(_gallery(desk_of(request)).view)


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
    found = _gallery(desk_of(request))
    return await asyncio.to_thread(found.page, agent, kind, operator, text, offset, limit)


@router.post("/open", status_code=201)
async def open_session(
    request: Request, agent: _Agent, number: Annotated[int, Query(ge=0, le=10_000_000)]
) -> SessionView:
    """Puts a session of the gallery on the bench, where it can be looked at and, on its own index, continued."""
    desk = desk_of(request)
    record = await asyncio.to_thread(_gallery(desk).record, agent, number)
    return open_record(desk, to_line(record))


def _gallery(desk: Desk) -> Gallery:
    if desk.gallery is None:
        raise NoGalleryError("this server shows no evaluation; start it with --evaluation FOLDER")
    return desk.gallery
