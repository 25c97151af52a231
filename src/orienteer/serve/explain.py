"""Why a passage came up: each clause's share of its BM25 score, and how deep the question alone had it."""

from __future__ import annotations

from orienteer.engine.protocol import Engine, Explains
from orienteer.evaluation.summaries import DEEPEST
from orienteer.query import Query
from orienteer.serve.responses import View


class ShareView(View):
    """One clause's part of the score; 0 where the passage lacks the term."""

    occur: str
    field: str
    term: str
    boost: float
    idf: float
    frequency: int
    score: float


class WhyView(View):
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


def why(engine: Engine, query: Query, passage_id: str) -> WhyView:
    engine.passages([passage_id])  # says so where the index does not hold it
    plain = Query(query.question)
    lists = engine.search_many([query, plain], DEEPEST)
    rank, question_rank = (_rank([hit.id for hit in hits], passage_id) for hits in lists)
    found = engine.explain(query, passage_id) if isinstance(engine, Explains) else None
    return WhyView(
        passage=passage_id, query=str(query), matches=found.matches if found else rank is not None,
        score=found.score if found else 0.0, rank=rank, question_rank=question_rank, deepest=DEEPEST,
        explained=found is not None,
        shares=[ShareView(**{name: getattr(share, name) for name in ShareView.model_fields}) for share in found.shares]
        if found
        else [],
    )  # fmt: skip


def _rank(ids: list[str], id: str) -> int | None:
    return ids.index(id) + 1 if id in ids else None
