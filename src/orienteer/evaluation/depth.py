"""How deep a passage lies: its BM25 rank under the question as asked, to 1,000 and beyond (`fig:exploration`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orienteer.engine.protocol import Engine, Hit
from orienteer.errors import QueryError
from orienteer.query import Query

DEEPEST = 1000
BINS = (5, 10, 20, 50, 100, 200, 500, DEEPEST)  # the last rank of each; deeper ones, and no match at all, come after
LABELS = (*(f"{low + 1}–{high}" for low, high in zip((0, *BINS[:-1]), BINS, strict=True)), f"> {DEEPEST}")

Ranks = Mapping[str, int]


def ranks_of(engine: Engine, questions: Sequence[str]) -> list[Ranks]:
    """For each question the ranks of the first 1,000 passages that it finds by itself; none where it is refused."""
    try:
        lists: Sequence[Sequence[Hit]] = engine.search_many([Query(question) for question in questions], DEEPEST)
    except QueryError:
        lists = [_alone(engine, question) for question in questions]
    return [{hit.id: rank for rank, hit in enumerate(hits, 1)} for hits in lists]


def bin_of(rank: int | None) -> int:
    """The place of a rank in `LABELS`."""
    return next((i for i, last in enumerate(BINS) if rank is not None and rank <= last), len(BINS))


def _alone(engine: Engine, question: str) -> Sequence[Hit]:
    try:
        return engine.search(Query(question), DEEPEST)
    except QueryError:
        return ()
