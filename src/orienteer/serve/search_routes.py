"""Routes that need no session: agents, indexes, examples, search, a passage, the explanation of its score."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Parameter

from orienteer.data.passage import Passage
from orienteer.defaults import STEPS
from orienteer.engine.protocol import Explains, document_of, fingerprint_of, neighbours
from orienteer.query import Query
from orienteer.serve.app_state import AppState, FoundPassage, SearchJob, state_of, with_passages
from orienteer.serve.schemas import (
    IndexName,
    PassageId,
    QueryView,
    ResponseModel,
    SearchRequest,
    WhyRequest,
    query_view,
)
from orienteer.workshop.why_not import DEEPEST, why_not

router = APIRouter(prefix="/api", tags=["catalogue"])


class AgentView(ResponseModel):
    name: str
    family: str
    about: str


class IndexView(ResponseModel):
    name: str
    passages: int | None
    fingerprint: str
    uploaded: bool


class ExampleView(ResponseModel):
    question: str
    answers: list[str]


class UploadsView(ResponseModel):
    """What may be uploaded; `kept`: it outlives the server."""

    files: int
    file_bytes: int
    total_bytes: int
    kept: bool


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
    uploads: UploadsView | None


class StoredPassage(ResponseModel):
    """A passage of the index. Its text is untrusted."""

    id: str
    title: str
    text: str
    source: str = ""
    metadata: dict[str, Any] = {}  # noqa: RUF012


class DocumentView(ResponseModel):
    """A passage among its neighbours of the same document, in the document's order; texts are untrusted.

    `pdf`: /api/source/page draws the passage's page, and /api/source/file is the file.
    """

    id: str
    document: str
    passages: list[StoredPassage]
    pdf: bool


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
    """`rank` and `question_rank` count from 1, by this query and by the question alone; None where it is not found.

    Down to `deepest` where the engine does not score all passages. `explained`: it can split its score.
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
        examples=await asyncio.to_thread(_examples, state, ""),
        default_agent=state.default_agent, default_steps=min(STEPS, state.limits.steps),
        max_steps=state.limits.steps, max_k=state.limits.k,
        gallery=request.app.state.gallery is not None, uploads=_uploads(state),
    )  # fmt: skip


@router.get("/examples")
async def examples(request: Request, index: Annotated[IndexName, Parameter()] = "") -> list[ExampleView]:
    """Questions to begin with, made from the index."""
    return await asyncio.to_thread(_examples, state_of(request), index)


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
    state.check_k(wanted.k)
    query = state.query(request, wanted.query)
    if wanted.learned:
        query, found = await asyncio.to_thread(_learned_search, state, wanted, index, query)
    else:
        found = await state.searches.do(SearchJob(index, query, wanted.k, wanted.where))
    return SearchView(
        query=query_view(str(query)),
        hits=[FoundView(**_stored(p), score=hit.score, rank=rank) for rank, (hit, p) in enumerate(found, 1)],
    )


@router.get("/passage")
async def passage(
    request: Request, id: Annotated[PassageId, Parameter()], index: Annotated[IndexName, Parameter()] = ""
) -> StoredPassage:
    """A whole passage by its id."""
    state = state_of(request)
    [stored] = await asyncio.to_thread(state.engine(index).passages, [id])
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
    found = await asyncio.to_thread(neighbours, state.engine(index), id, around)
    here = next(each for each in found if each.id == id)
    pdf = await asyncio.to_thread(state.sources.has_pdf, state.index(index), here, state.documents())
    passages = [StoredPassage(**_stored(each)) for each in found]
    return DocumentView(id=id, document=document_of(here), passages=passages, pdf=pdf)


@router.post("/why")
async def explain(request: Request, wanted: WhyRequest) -> WhyView:
    """Each clause's share of a passage's BM25 score, its rank by this query and by the question alone."""
    state = state_of(request)
    query = state.query(request, wanted.query)
    return await asyncio.to_thread(_explanation, state, wanted, query)


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
            name=name,
            passages=len(engine) if isinstance(engine, Sized) else None,
            fingerprint=fingerprint_of(engine),
            uploaded=name in state.documents(),
        )
        for name, engine in state.engines.items()
    ]


def _examples(state: AppState, index: str) -> list[ExampleView]:
    return [ExampleView(question=each.question, answers=list(each.answers)) for each in state.examples(index)]


def _uploads(state: AppState) -> UploadsView | None:
    if state.uploads is None:
        return None
    limits = state.uploads.limits
    return UploadsView(
        files=limits.files, file_bytes=limits.file, total_bytes=limits.total, kept=not state.uploads.temporary
    )


def _learned_search(
    state: AppState, wanted: SearchRequest, index: str, query: Query
) -> tuple[Query, list[FoundPassage]]:
    engine = state.engine(index)
    asked, hits = state.learned.search(engine, wanted.where, query, wanted.k)
    return asked, with_passages(engine, [hits])[0]


def _explanation(state: AppState, wanted: WhyRequest, query: Query) -> WhyView:
    """`why_not` without edits, of the query and of its question alone."""
    engine = state.engine(wanted.index, wanted.where)
    why, alone = (why_not(engine, each, wanted.passage, k=1, changes=0) for each in (query, Query(query.question)))
    shares = [ShareView(**{name: getattr(each, name) for name in ShareView.model_fields}) for each in why.clauses]
    return WhyView(
        passage=why.passage, query=str(query), matches=why.matches, score=why.score, rank=why.rank,
        question_rank=alone.rank, deepest=DEEPEST, explained=isinstance(engine, Explains), shares=shares,
    )  # fmt: skip
