"""Routes that need no session: agents, indexes, examples, search, a passage, why it came up."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Annotated

from fastapi import APIRouter, Query, Request

from orienteer.engine.protocol import fingerprint_of
from orienteer.query import parse
from orienteer.serve.app_state import Desk, Searching, desk_of
from orienteer.serve.explain import WhyView, why
from orienteer.serve.requests import IndexName, PassageId, SearchRequest, WhyRequest
from orienteer.serve.responses import QueryView, View, query_view

router = APIRouter(prefix="/api", tags=["catalogue"])


class AgentView(View):
    name: str
    family: str
    about: str


class IndexView(View):
    name: str
    passages: int | None
    fingerprint: str


class ExampleView(View):
    question: str
    answers: list[str]


class AboutView(View):
    """What this server offers: what a page needs before it asks anything."""

    agents: list[AgentView]
    indexes: list[IndexView]
    examples: list[ExampleView]
    default_agent: str
    max_steps: int
    max_k: int
    gallery: bool


class StoredPassage(View):
    """A passage of the index. Its text is untrusted."""

    id: str
    title: str
    text: str


class FoundView(StoredPassage):
    score: float
    rank: int


class SearchView(View):
    query: QueryView
    hits: list[FoundView]


@router.get("/about")
async def about(request: Request) -> AboutView:
    """All that the page asks for first."""
    desk = desk_of(request)
    return AboutView(
        agents=_agents(desk), indexes=_indexes(desk),
        examples=[ExampleView(question=each.question, answers=list(each.answers)) for each in desk.examples],
        default_agent=desk.default_agent, max_steps=desk.limits.steps, max_k=desk.limits.k,
        gallery=desk.gallery is not None,
    )  # fmt: skip


@router.get("/agents")
async def agents(request: Request) -> list[AgentView]:
    """Every agent that can be asked for by its bare name."""
    return _agents(desk_of(request))


@router.get("/indexes")
async def indexes(request: Request) -> list[IndexView]:
    """The indexes that are served; the first is taken where none is named."""
    return _indexes(desk_of(request))


@router.post("/search")
async def search(request: Request, asked: SearchRequest) -> SearchView:
    """The top k passages of one query."""
    desk = desk_of(request)
    index = desk.index(asked.index)
    desk.check_text(asked.query)
    desk.check_k(asked.k)
    request.state.asked = asked.query
    query = parse(asked.query)
    hits = await desk.searches.do(Searching(index, query, asked.k))
    passages = await asyncio.to_thread(desk.engines[index].passages, [hit.id for hit in hits])
    return SearchView(
        query=query_view(str(query)),
        hits=[
            FoundView(id=p.id, title=p.title, text=p.text, score=hit.score, rank=rank)
            for rank, (hit, p) in enumerate(zip(hits, passages, strict=True), 1)
        ],
    )


@router.get("/passage")
async def passage(
    request: Request, id: Annotated[PassageId, Query()], index: Annotated[IndexName, Query()] = ""
) -> StoredPassage:
    """A whole passage by its id."""
    desk = desk_of(request)
    [found] = await asyncio.to_thread(desk.engines[desk.index(index)].passages, [id])
    return StoredPassage(id=found.id, title=found.title, text=found.text)


@router.post("/why")
async def explain(request: Request, asked: WhyRequest) -> WhyView:
    """Each clause's share of a passage's BM25 score, its rank by this query and by the question alone."""
    desk = desk_of(request)
    desk.check_text(asked.query)
    request.state.asked = asked.query
    return await asyncio.to_thread(why, desk.engines[desk.index(asked.index)], parse(asked.query), asked.passage)


def _agents(desk: Desk) -> list[AgentView]:
    return [AgentView(name=each.name, family=each.family, about=each.about) for each in desk.offers]


def _indexes(desk: Desk) -> list[IndexView]:
    return [
        IndexView(
            name=name, passages=len(engine) if isinstance(engine, Sized) else None, fingerprint=fingerprint_of(engine)
        )
        for name, engine in desk.engines.items()
    ]
