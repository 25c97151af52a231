"""Measures by judgements over a whole ranking, with ir-measures: nDCG@10, Recall@100, MAP, MRR.

An agent's ranking is all passages that it read, in its own order, then the rest of the question's own BM25 ranking
down to rank 1,000: as where a search page shows a re-ranked head. So `bm25` is BM25's own ranking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orienteer.errors import MissingExtraError
from orienteer.session import Record

# Our name → that of ir-measures; all without a cut-off are over the whole ranking.
RANKING_MEASURES: Mapping[str, str] = {"nDCG@10": "nDCG@10", "Recall@100": "R@100", "MAP": "AP", "MRR": "RR"}

Ranking = Sequence[str]


def ranking_of(record: Record, first: Iterable[str]) -> list[str]:
    """Ids, best first; `first` is the question's own ranking."""
    read = list(record.passages)
    if record.provenance.settings.order != "engine":
        read.sort(key=lambda id: -record.passages[id].score)
    best = record.best
    return list(dict.fromkeys([*best, *read, *first]))


def measure_rankings(
    rankings: Mapping[str, Ranking], judgements: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, float]]:
    """Measure → question → value, for every question that has judgements."""
    try:
        import ir_measures
    except ImportError:
        raise MissingExtraError("ir-measures", "eval") from None
    measures = {ir_measures.parse_measure(theirs): ours for ours, theirs in RANKING_MEASURES.items()}
    run = [
        ir_measures.ScoredDoc(question, passage, float(len(ranking) - rank))
        for question, ranking in rankings.items()
        for rank, passage in enumerate(ranking)
    ]
    qrels = [
        ir_measures.Qrel(question, passage, grade)
        for question, grades in judgements.items()
        for passage, grade in grades.items()
    ]
    found: dict[str, dict[str, float]] = {ours: dict.fromkeys(judgements, 0.0) for ours in RANKING_MEASURES}
    for each in ir_measures.iter_calc(list(measures), qrels, run):
        found[measures[each.measure]][each.query_id] = float(each.value)
    return found
