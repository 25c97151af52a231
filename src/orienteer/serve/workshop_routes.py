"""Routes of the query workshop: why a passage is not found, the best query for a set of passages."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from orienteer.engine.protocol import fingerprint_of
from orienteer.query import parse
from orienteer.serve.app_state import state_of
from orienteer.serve.schemas import HitView, IndexName, PassageId, RequestModel, ResponseModel, Text
from orienteer.workshop import find_query as finding
from orienteer.workshop.thumbs import Thumb, ThumbStore
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


class FindQueryRequest(RequestModel):
    """The best query of at most so many clauses for passages marked as relevant."""

    relevant: Annotated[tuple[PassageId, ...], Field(min_length=1, max_length=500)]
    not_relevant: Annotated[tuple[PassageId, ...], Field(max_length=500)] = ()
    seed: Annotated[str, Field(max_length=2000, description="a query in Lucene's syntax that stays")] = ""
    clauses: Annotated[int, Field(ge=1, le=24)] = 12
    beta: Annotated[float, Field(ge=0.1, le=10)] = 1.0
    holdout: Annotated[float, Field(ge=0, le=0.9)] = 0.0
    index: IndexName = ""


class FoundQueryView(ResponseModel):
    """A query of the Pareto front of length against quality; counts are over all its matches."""

    clauses: list[str]
    lucene: str
    boolean: str
    opensearch: dict[str, Any]
    f: float
    precision: float
    recall: float
    matches: int
    relevant: int
    rejected: int
    held_out_recall: float | None


class ContributionView(ResponseModel):
    """What the query loses without one of its clauses."""

    clause: str
    loss: float
    relevant_lost: int
    matches_without: int


class FindQueryView(ResponseModel):
    best: FoundQueryView
    front: list[FoundQueryView]
    contributions: list[ContributionView]
    wanted: int
    held_out: int
    tried: int
    seconds: float
    complete: bool


@router.post("/find-query")
async def find_best_query(request: Request, wanted: FindQueryRequest) -> FindQueryView:
    """The best readable query for a set of passages, its front by length, and what each clause gives."""
    state = state_of(request)
    seed = None
    if wanted.seed:
        state.check_text(wanted.seed)
        seed = parse(wanted.seed)
    engine = state.engines[state.index(wanted.index)]
    result = await asyncio.to_thread(
        finding.find_query, engine, wanted.relevant, not_relevant=wanted.not_relevant, seed=seed,
        clauses=wanted.clauses, beta=wanted.beta, holdout=wanted.holdout, seconds=_SECONDS,
    )  # fmt: skip
    return FindQueryView(**finding.as_dict(result))


class ThumbRequest(RequestModel):
    """A thumb of a passage for a question: 1 up, -1 down, 0 takes it back. Kept in a file of this machine."""

    question: Text
    passage: PassageId
    thumb: Annotated[int, Field(ge=-1, le=1)]
    index: IndexName = ""


class ThumbView(ResponseModel):
    question: str
    passage: str
    thumb: int


@router.post("/thumbs")
async def add_thumb(request: Request, wanted: ThumbRequest) -> ThumbView:
    """Keeps the thumb."""
    state = state_of(request)
    state.check_text(wanted.question)
    engine = state.engines[state.index(wanted.index)]
    await asyncio.to_thread(engine.passages, [wanted.passage])  # raises where there is none
    thumb = Thumb(fingerprint_of(engine), wanted.question, wanted.passage, wanted.thumb)
    await asyncio.to_thread(ThumbStore(state.thumbs_file).add, thumb)
    return ThumbView(question=wanted.question, passage=wanted.passage, thumb=wanted.thumb)


@router.get("/thumbs")
async def list_thumbs(request: Request, index: IndexName = "") -> list[ThumbView]:
    """All thumbs that count, for export."""
    state = state_of(request)
    engine = state.engines[state.index(index)]
    thumbs = await asyncio.to_thread(ThumbStore(state.thumbs_file).thumbs, fingerprint_of(engine))
    return [ThumbView(question=each.question, passage=each.passage, thumb=each.thumb) for each in thumbs]
