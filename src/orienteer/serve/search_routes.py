"""Routes that need no session: agents, indexes, examples, search, a passage, the explanation of its score."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Parameter

from orienteer.data.passage import Passage
from orienteer.defaults import STEPS
from orienteer.engine.protocol import Engine, Explains, document_of, fingerprint_of, neighbours
from orienteer.errors import UnknownPassageError
from orienteer.evaluation.summaries import DEEPEST
from orienteer.query import Query, parse
from orienteer.serve.app_state import AppState, SearchJob, state_of
from orienteer.serve.schemas import (
    IndexName,
    PassageId,
    QueryView,
    ResponseModel,
    SearchRequest,
    WhyRequest,
    query_view,
)

router = APIRouter(prefix="/api", tags=["catalogue"])


class AgentView(ResponseModel):
    name: str
    family: str
    about: str


class IndexView(ResponseModel):
    name: str
    passages: int | None
    fingerprint: str


class ExampleView(ResponseModel):
    question: str
    answers: list[str]


class AboutView(ResponseModel):
    """What this server offers: what a page needs before it asks anything."""

    agents: list[AgentView]
    indexes: list[IndexView]
    examples: list[ExampleView]
    default_agent: str
    default_steps: int
    max_steps: int
    max_k: int
    gallery: bool


class StoredPassage(ResponseModel):
    """A passage of the index. Its text is untrusted."""

    id: str
    title: str
    text: str
    source: str = ""
    metadata: dict[str, Any] = {}  # noqa: RUF012


class DocumentView(ResponseModel):
    """A passage among its neighbours of the same document, in the document's order; texts are untrusted."""

    id: str
    document: str
    passages: list[StoredPassage]


class FoundView(StoredPassage):
    score: float
    rank: int


class SearchView(ResponseModel):
    query: QueryView
    hits: list[FoundView]


class ShareView(ResponseModel):
    """One clause's part of the score; 0 where the passage lacks the term."""

    occur: str
    field: str
    term: str
    boost: float
    idf: float
    frequency: int
    score: float


class WhyView(ResponseModel):
    """`rank` and `question_rank` count from 1, by this query and by the question alone; None below the first 1,000.

    `explained` is false where the engine cannot split its score.
    """

    passage: str
    query: str
    matches: bool
    score: float
    rank: int | None
    question_rank: int | None
    deepest: int
    explained: bool
    shares: list[ShareView]


@router.get("/about")
async def about(request: Request) -> AboutView:
    """All that the page asks for first."""
    state = state_of(request)
    return AboutView(
        agents=_agents(state), indexes=_indexes(state),
        examples=[ExampleView(question=each.question, answers=list(each.answers)) for each in state.examples],
        default_agent=state.default_agent, default_steps=min(STEPS, state.limits.steps),
        max_steps=state.limits.steps, max_k=state.limits.k,
        gallery=request.app.state.gallery is not None,
    )  # fmt: skip


@router.get("/agents")
async def agents(request: Request) -> list[AgentView]:
    """Every agent that can be asked for by its bare name."""
    return _agents(state_of(request))


@router.get("/indexes")
async def indexes(request: Request) -> list[IndexView]:
    """The indexes that are served; the first is taken where none is named."""
    return _indexes(state_of(request))


@router.post("/search")
async def search(request: Request, wanted: SearchRequest) -> SearchView:
    """The top k passages of one query."""
    state = state_of(request)
    index = state.index(wanted.index)
    state.check_text(wanted.query)
    state.check_k(wanted.k)
    request.state.query_text = wanted.query
    query = parse(wanted.query)
    for attempt in range(3):
        hits = await state.searches.do(SearchJob(index, query, wanted.k, wanted.where))
        try:
            passages = await asyncio.to_thread(state.engines[index].passages, [hit.id for hit in hits])
            break
        except UnknownPassageError:  # a new generation has come between both calls
            if attempt == 2:
                raise
    return SearchView(
        query=query_view(str(query)),
        hits=[
            FoundView(**_stored(p), score=hit.score, rank=rank)
            for rank, (hit, p) in enumerate(zip(hits, passages, strict=True), 1)
        ],
    )


@router.get("/passage")
async def passage(
    request: Request, id: Annotated[PassageId, Parameter()], index: Annotated[IndexName, Parameter()] = ""
) -> StoredPassage:
    """A whole passage by its id."""
    state = state_of(request)
    [stored] = await asyncio.to_thread(state.engines[state.index(index)].passages, [id])
    return StoredPassage(**_stored(stored))


@router.get("/document")
async def document(
    request: Request,
    id: Annotated[PassageId, Parameter()],
    index: Annotated[IndexName, Parameter()] = "",
    around: Annotated[int, Parameter(ge=0, le=20)] = 5,
) -> DocumentView:
    """A passage in its document: up to `around` passages before and after it."""
    state = state_of(request)
    found = await asyncio.to_thread(neighbours, state.engines[state.index(index)], id, around)
    name = document_of(next(each for each in found if each.id == id))
    return DocumentView(id=id, document=name, passages=[StoredPassage(**_stored(each)) for each in found])


@router.post("/why")
async def explain(request: Request, wanted: WhyRequest) -> WhyView:
    """Each clause's share of a passage's BM25 score, its rank by this query and by the question alone."""
    state = state_of(request)
    state.check_text(wanted.query)
    request.state.query_text = wanted.query
    return await asyncio.to_thread(
        _explanation, state.engines[state.index(wanted.index)], parse(wanted.query), wanted.passage
    )


def _stored(passage: Passage) -> dict[str, Any]:
    return {
        "id": passage.id, "title": passage.title, "text": passage.text, "source": passage.source,
        "metadata": dict(passage.metadata),
    }  # fmt: skip


def _agents(state: AppState) -> list[AgentView]:
    return [AgentView(name=each.name, family=each.family, about=each.about) for each in state.agents.listing()]


def _indexes(state: AppState) -> list[IndexView]:
    return [
        IndexView(
            name=name, passages=len(engine) if isinstance(engine, Sized) else None, fingerprint=fingerprint_of(engine)
        )
        for name, engine in state.engines.items()
    ]


def _explanation(engine: Engine, query: Query, passage_id: str) -> WhyView:
    engine.passages([passage_id])  # raises where the index does not have it
    hit_lists = engine.search_many([query, Query(query.question)], DEEPEST)
    rank, question_rank = (_rank([hit.id for hit in hits], passage_id) for hits in hit_lists)
    explanation = engine.explain(query, passage_id) if isinstance(engine, Explains) else None
    shares = explanation.shares if explanation else ()
    return WhyView(
        passage=passage_id, query=str(query), matches=explanation.matches if explanation else rank is not None,
        score=explanation.score if explanation else 0.0, rank=rank, question_rank=question_rank, deepest=DEEPEST,
        explained=explanation is not None,
        shares=[ShareView(**{name: getattr(share, name) for name in ShareView.model_fields}) for share in shares],
    )  # fmt: skip


def _rank(ids: list[str], id: str) -> int | None:
    return ids.index(id) + 1 if id in ids else None
