"""Routes of the query workshop: why a passage is not found."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from orienteer.query import parse
from orienteer.serve.app_state import state_of
from orienteer.serve.schemas import HitView, IndexName, PassageId, RequestModel, ResponseModel, Text
from orienteer.workshop.why_not import as_dict, why_not

router = APIRouter(prefix="/api/workshop", tags=["workshop"])

_SECONDS = 5.0  # for edits of two changes


class WhyNotRequest(RequestModel):
    """Why a query in Lucene's syntax does not have a passage among its first k hits."""

    query: Text
    passage: PassageId
    k: Annotated[int, Field(ge=1, le=100)] = 10
    keep: Annotated[tuple[PassageId, ...], Field(max_length=100, description="hits that an edit must not lose")] = ()
    changes: Annotated[int, Field(ge=0, le=2, description="changes of the query at most")] = 2
    index: IndexName = ""


class ClauseComparisonView(ResponseModel):
    """What one clause gives the passage, and what it gives the k-th hit."""

    occur: str
    field: str
    term: str
    boost: float
    idf: float
    frequency: int
    score: float
    kth_frequency: int
    kth_score: float


class EditView(ResponseModel):
    """A changed query that has the passage among its first k; `entered` and `left` are ids."""

    dropped: list[str]
    added: list[str]
    query: str
    rank: int
    entered: list[str]
    left: list[str]


class WhyNotView(ResponseModel):
    """`edits`: the smallest, best first; minimal among `tried` where `complete`."""

    passage: str
    query: str
    k: int
    matches: bool
    score: float
    rank: int | None
    kth: HitView | None
    clauses: list[ClauseComparisonView]
    blocked_by: list[str]
    missing: list[str]
    length: int
    kth_length: int
    edits: list[EditView]
    tried: int
    complete: bool


@router.post("/why-not")
async def explain_miss(request: Request, wanted: WhyNotRequest) -> WhyNotView:
    """Rank, score and clauses of a passage against the k-th hit, and the smallest edits that bring it in."""
    state = state_of(request)
    state.check_text(wanted.query)
    state.check_k(wanted.k)
    request.state.query_text = wanted.query
    engine, query = state.engines[state.index(wanted.index)], parse(wanted.query)
    result = await asyncio.to_thread(
        why_not, engine, query, wanted.passage, k=wanted.k, keep=wanted.keep, changes=wanted.changes, seconds=_SECONDS
    )
    return WhyNotView(**as_dict(result))
