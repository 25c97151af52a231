"""What is measured of a session, each measure one entry: its name, what it means, its value after any step.

Plain arithmetic over the record; where ir-measures has the same measure its name stands beside ours, and
`ir_measures OUT/qrels.trec OUT/runs/AGENT.trec 'SDCG(max_rel=1)@5' Success@1 Success@5` gives the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from orienteer.session.record import Record, RecordedPassage
from orienteer.session.score import ndcg

Value = Callable[[Record, int], float]  # of a session with at least one step, after step t


@dataclass(frozen=True, slots=True)
class Measure:
    """`needs`: what must be known of a question for it to apply. `percent`: shown as 100 times its mean."""

    name: str
    about: str
    value: Value
    ir_measures: str = ""
    needs: Literal["relevance", "answers", ""] = "relevance"
    percent: bool = True

    def of(self, record: Record, step: int | None = None) -> float | None:
        """Its value in [0, 1], or a count; at the end, or after step t or the last step before it.

        None where it does not apply; 0 where the question could not be asked.
        """
        if (self.needs and not record.question.is_judged) or (self.needs == "answers" and not record.question.answers):
            return None
        if not record.steps:
            return 0.0
        last = len(record.steps) - 1
        return float(self.value(record, last if step is None else min(step, last)))


def best_passages(record: Record, step: int) -> list[RecordedPassage]:
    return [record.passages[id] for id in record.steps[step].best]


def _ndcg(record: Record, step: int) -> float:
    return ndcg([bool(passage.relevant) for passage in best_passages(record, step)])


def _top(k: int) -> Value:
    return lambda record, step: any(passage.relevant for passage in best_passages(record, step)[:k])


def _found(record: Record, step: int) -> float:
    return any(passage.relevant for passage in record.passages.values() if passage.step <= step)


def _exact(record: Record, step: int) -> float:
    return any(passage.exact for passage in best_passages(record, step)[:1])


def _score(record: Record, step: int) -> float:
    score = record.steps[step].score
    return score.total if score is not None else 0.0


def _reward(record: Record, step: int) -> float:
    return _score(record, step) - _score(record, 0)


def _passages_read(record: Record, step: int) -> float:
    return sum(passage.step <= step for passage in record.passages.values())


def _queries(record: Record, step: int) -> float:
    return record.queries


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("NDCG@5", "the paper's NDCG: the ideal is five relevant passages", _ndcg, "SDCG(max_rel=1)@5"),
        Measure("Top-1", "the first passage is relevant", _top(1), "Success@1"),
        Measure("Top-5", "one of the five is relevant", _top(5), "Success@5"),
        Measure("found", "one of all passages seen is relevant", _found),
        Measure("EM-MR", "the reader's answer from the first passage is a gold answer", _exact, needs="answers"),
        Measure("score", "S of the final five passages", _score),
        Measure("reward", "S at the end less S of the question's own results", _reward),
        Measure("passages_read", "distinct passages read", _passages_read, needs="", percent=False),
        Measure("queries", "queries asked, those of the agent itself included", _queries, needs="", percent=False),
        Measure(
            "refinements_scored", "refinements whose hits the agent asked the engine for, without searching with them",
            lambda record, step: record.cost.refinements_scored, needs="", percent=False,
        ),
        Measure(
            "passages_scored", "unread passages that the agent's value model scored",
            lambda record, step: record.cost.passages_scored, needs="", percent=False,
        ),
    )
}  # fmt: skip

QUALITY = tuple(name for name, measure in MEASURES.items() if measure.needs)
COSTS = tuple(name for name, measure in MEASURES.items() if not measure.needs)
COUNTED_BY_AGENTS = ("refinements_scored", "passages_scored")  # summaries of the first versions have neither
SECONDS = "seconds"
ABOUT_SECONDS = (
    "wall time a question of engine, agent and session on the machine that played it, other programs and all; reading "
    "is left out, since a cache may hide it: it costs `passages_read` times what the reader takes"
)
BY_STEP = ("NDCG@5", "Top-1", "Top-5", "EM-MR", "found", "score")
