"""BM25 passages, read and ranked by PS."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.data import Passage, Question
from orienteer.engine.protocol import Engine
from orienteer.query import Query
from orienteer.reader.protocol import Reader, Reading


def bm25_passages(engine: Engine, questions: Sequence[Question], k: int) -> list[tuple[str, list[Passage]]]:
    """Each question with the top k passages of BM25: what `Reader.read_many` takes."""
    ranked = engine.search_many([Query(q.question) for q in questions], k)
    return [(q.question, engine.passages([hit.id for hit in hits])) for q, hits in zip(questions, ranked, strict=True)]


def read_ranked(question: str, engine: Engine, reader: Reader, depth: int) -> list[tuple[Passage, Reading]]:
    """The BM25 top `depth` of a question by PS, best first; equals stay in BM25's order."""
    [(_, passages)] = bm25_passages(engine, [Question("", question)], depth)
    pairs = list(zip(passages, reader.read(question, passages), strict=True))
    return sorted(pairs, key=lambda pair: -pair[1].logit)
