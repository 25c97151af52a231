"""Routes of the query workshop: why not found, the best query for a set, tuning curves, thumbs, what they teach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, ScoresAll, fingerprint_of
from orienteer.query import Query
from orienteer.serve.app_state import AppState, state_of
from orienteer.serve.event_stream import EVENTS, MEDIA_TYPE, event, streamed
from orienteer.serve.schemas import HitView, IndexName, PassageId, RequestModel, ResponseModel, Text, WhereText
from orienteer.workshop import find_query as finding
from orienteer.workshop import learn as learning
from orienteer.workshop import tune as tuning
from orienteer.workshop.ranking_setting import Grid
from orienteer.workshop.thumbs import Thumb, ThumbStore
from orienteer.workshop.why_not import as_dict as why_not_row
from orienteer.workshop.why_not import why_not

router = APIRouter(prefix="/api/workshop", tags=["workshop"])

_SECONDS = 5.0  # for edits of two changes, for a query's search
_HITS = 20  # of a found query that are shown
# Coarser than the command's: a page should answer in seconds.
PAGE_GRID = Grid(
    (0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.2, 2.6, 3.0), (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0),
    (0.0, 0.1, 0.25, 0.5, 1.0, 2.0), (0.5,), (0.0, 0.25, 0.5, 1.0),
)  # fmt: skip


class WhyNotRequest(RequestModel):
    """Why a query in Lucene's syntax does not have a passage among its first k hits."""

    query: Text
    passage: PassageId
    k: Annotated[int, Field(ge=1, le=100)] = 10
    keep: Annotated[tuple[PassageId, ...], Field(max_length=100, description="hits that an edit must not lose")] = ()
    changes: Annotated[int, Field(ge=0, le=2, description="changes of the query at most")] = 2
    index: IndexName = ""
    where: WhereText = ""


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
    """`edits`: the smallest, best first; minimal among `tried` where `complete`. `titles` are those of all ids here."""

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
    titles: dict[str, str]


@router.post("/why-not")
async def explain_miss(request: Request, wanted: WhyNotRequest) -> WhyNotView:
    """Rank, score and clauses of a passage against the k-th hit, and the smallest edits that bring it in."""
    state = state_of(request)
    state.check_k(wanted.k)
    query = state.query(request, wanted.query)
    return await asyncio.to_thread(_why_not, state, wanted, query)


def _why_not(state: AppState, wanted: WhyNotRequest, query: Query) -> WhyNotView:
    engine = state.engine(wanted.index, wanted.where)
    result = why_not(
        engine, query, wanted.passage, k=wanted.k, keep=wanted.keep, changes=wanted.changes, seconds=_SECONDS
    )
    ids = [wanted.passage, *(id for edit in result.edits for id in (*edit.entered, *edit.left))]
    ids += [result.kth.id] if result.kth else []
    return WhyNotView(**why_not_row(result), titles=_titles(engine, ids))


class FindQueryRequest(RequestModel):
    """The best query of at most so many clauses for passages marked as relevant."""

    relevant: Annotated[tuple[PassageId, ...], Field(min_length=1, max_length=500)]
    not_relevant: Annotated[tuple[PassageId, ...], Field(max_length=500)] = ()
    seed: Annotated[str, Field(max_length=2000, description="a query in Lucene's syntax that stays")] = ""
    objective: Annotated[str, Field(max_length=20, description=finding.OBJECTIVES)] = "f"
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
    value: Annotated[float | None, Field(description="the objective, where it is not `f`")] = None


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


class FoundEvent(ResponseModel):
    """The best query of one length: its first passages with their titles, and the wanted ones that it misses."""

    query: FoundQueryView
    hits: list[str]
    missed: list[str]
    titles: dict[str, str]


@router.post("/find-query", response_model=FindQueryView, responses={200: {"content": EVENTS}})
async def find_best_query(request: Request, wanted: FindQueryRequest) -> Response | FindQueryView:
    """The best readable query for a set of passages, its front by length, and what each clause gives.

    To a client that accepts text/event-stream the best query of each length comes as soon as it is known: events
    `found` …, then `end` or `error`.
    """
    state = state_of(request)
    seed = state.query(request, wanted.seed) if wanted.seed else None
    engine = state.engine(wanted.index)
    if MEDIA_TYPE in request.headers.get("accept", ""):
        return streamed(_found_events(state, engine, wanted, seed))
    async with state.heavy:
        return await asyncio.to_thread(_find_query, engine, wanted, seed, lambda found: None)


def _find_query(
    engine: Engine, wanted: FindQueryRequest, seed: Query | None, on_found: Callable[[finding.FoundQuery], None]
) -> FindQueryView:
    result = finding.find_query(
        engine, wanted.relevant, not_relevant=wanted.not_relevant, seed=seed, objective=wanted.objective,
        clauses=wanted.clauses, beta=wanted.beta, holdout=wanted.holdout, seconds=_SECONDS, on_found=on_found,
    )  # fmt: skip
    return FindQueryView(**finding.as_dict(result))


async def _found_events(
    state: AppState, engine: Engine, wanted: FindQueryRequest, seed: Query | None
) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[FoundEvent | None] = asyncio.Queue()

    def tell(found: finding.FoundQuery) -> None:
        loop.call_soon_threadsafe(events.put_nowait, _found_event(engine, wanted, found))

    async with state.heavy:
        work = asyncio.ensure_future(asyncio.to_thread(_find_query, engine, wanted, seed, tell))
        work.add_done_callback(lambda done: events.put_nowait(None))
        while (found := await events.get()) is not None:
            yield event("found", found)
        yield event("end", await work)


def _found_event(engine: Engine, wanted: FindQueryRequest, found: finding.FoundQuery) -> FoundEvent:
    alone = finding.FindQuery(found, (found,), (), 0, 0, 0, 0.0, True)
    hits = [hit.id for hit in engine.search(found.query, _HITS)]
    missed: list[str] = []
    if isinstance(engine, ScoresAll):
        scores = engine.scores(found.query)
        missed = [id for id in wanted.relevant if scores[engine.number_of(id)] == -np.inf]
    return FoundEvent(
        query=FoundQueryView(**finding.as_dict(alone)["best"]), hits=hits, missed=missed,
        titles=_titles(engine, [*hits, *missed]),
    )  # fmt: skip


def _titles(engine: Engine, ids: Iterable[str]) -> dict[str, str]:
    unique = list(dict.fromkeys(ids))
    return {passage.id: passage.title for passage in engine.passages(unique)}


class JudgedQuestion(RequestModel):
    """A question with the grades of passages, 0: not relevant."""

    question: Text
    judgements: Annotated[dict[PassageId, Annotated[int, Field(ge=-10, le=100)]], Field(max_length=1000)]


class TuneRequest(RequestModel):
    """`judged`: none where the thumbs of this index should judge."""

    judged: Annotated[list[JudgedQuestion], Field(max_length=2000)] = []  # noqa: RUF012
    index: IndexName = ""


class SettingView(ResponseModel):
    k1: float
    b: float
    title_weight: float
    title_b: float
    phrase_weight: float
    stop_share: float
    refinement: str


class TuningView(ResponseModel):
    """nDCG@10. `curves`: parameter → [value, best mean with that value]; `low` to `high` is what tuning gains, 95 %."""

    questions: int
    settings: int
    default_value: float
    best: SettingView
    best_value: float
    estimate: float
    difference: float
    low: float
    high: float
    shown_better: bool
    recommended: SettingView
    by_fold: list[SettingView]
    curves: dict[str, list[tuple[float, float]]]
    seconds: float


@router.post("/tune")
async def tune_ranking(request: Request, wanted: TuneRequest) -> TuningView:
    """How the ranking's parameters do on judged questions, and whether another setting is shown to be better."""
    state = state_of(request)
    engine = state.engine(wanted.index)
    if wanted.judged:
        questions = [
            Question(str(n), each.question, judgements=tuple(each.judgements.items()))
            for n, each in enumerate(wanted.judged)
        ]
    else:
        questions = ThumbStore(state.thumbs_file).questions(fingerprint_of(engine))
    async with state.heavy:
        tuned = await asyncio.to_thread(tuning.tune, engine, questions, PAGE_GRID)
    return TuningView(**tuning.as_dict(tuned))


class EstimateView(ResponseModel):
    """A leave-one-out mean of nDCG@10, and its difference to doing nothing with a 95 % interval."""

    value: float
    difference: float
    low: float
    high: float


class ProposalView(ResponseModel):
    """What the thumbs suggest; nothing is used before it is switched `on`.

    `estimates` are of `refit`, `synonyms`, `boosts` and `all`; `recommended` is one of these or `nothing`.
    """

    questions: int
    thumbs: int
    setting: SettingView
    synonyms: dict[str, list[str]]
    boosts: dict[str, float]
    nothing: float
    estimates: dict[str, EstimateView]
    recommended: str
    on: bool


class SwitchRequest(RequestModel):
    on: bool
    index: IndexName = ""


class SwitchView(ResponseModel):
    on: bool


@router.post("/learn")
async def propose(request: Request, index: IndexName = "") -> ProposalView:
    """What the thumbs of an index suggest, with what it is worth on questions left out."""
    state = state_of(request)
    engine = state.engine(index)
    questions = await asyncio.to_thread(ThumbStore(state.thumbs_file).questions, fingerprint_of(engine))
    async with state.heavy:
        proposal = await asyncio.to_thread(learning.learn, engine, questions)
    state.learned.proposals[fingerprint_of(engine)] = proposal
    return ProposalView(**learning.as_dict(proposal), on=state.learned.is_on(engine))


@router.get("/learn")
async def is_learned(request: Request, index: IndexName = "") -> SwitchView:
    """Whether a learned ranking is switched on."""
    state = state_of(request)
    return SwitchView(on=await asyncio.to_thread(state.learned.is_on, state.engine(index)))


@router.post("/learn/switch")
async def switch_learned(request: Request, wanted: SwitchRequest) -> SwitchView:
    """Switches the last proposal on, for searches that ask for it, or off."""
    state = state_of(request)
    engine = state.engine(wanted.index)
    await asyncio.to_thread(state.learned.switch, engine, wanted.on)
    return SwitchView(on=wanted.on)


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
    engine = state.engine(wanted.index)
    await asyncio.to_thread(engine.passages, [wanted.passage])  # raises where there is none
    thumb = Thumb(fingerprint_of(engine), wanted.question, wanted.passage, wanted.thumb)
    await asyncio.to_thread(ThumbStore(state.thumbs_file).add, thumb)
    return ThumbView(question=wanted.question, passage=wanted.passage, thumb=wanted.thumb)


@router.get("/thumbs")
async def list_thumbs(request: Request, index: IndexName = "") -> list[ThumbView]:
    """All thumbs that count, for export."""
    state = state_of(request)
    engine = state.engine(index)
    thumbs = await asyncio.to_thread(ThumbStore(state.thumbs_file).thumbs, fingerprint_of(engine))
    return [ThumbView(question=each.question, passage=each.passage, thumb=each.thumb) for each in thumbs]
