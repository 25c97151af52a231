"""The regression report: stored judgements asked again, beside the first ten hits that the last report kept.

A report keeps each question's first ten passages, not its value. Both rankings are judged by *today's* judgements, so
that a new thumb alone moves nothing. What is compared is today's index and ranking with those of the last report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, HasPostings, fingerprint_of
from orienteer.errors import OrienteerError, UnknownPassageError
from orienteer.query import Query
from orienteer.workshop.learn import Changes, changes_of, expanded
from orienteer.workshop.tune import DEPTH, best_numbers, interval, ndcg

LEAST = 5  # questions of both reports, before a drop is shown


class RegressionError(OrienteerError):
    """A report that cannot be made, or an earlier one that cannot be read."""


@dataclass(frozen=True, slots=True)
class Report:
    """first: question → its first ten passages. indexes: fingerprints of the index, today's last."""

    made: str
    indexes: tuple[str, ...]
    changed_ranking: bool
    first: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Moved:
    """A question whose nDCG@10 differs. left: relevant passages out of the first ten; gone: not in the index."""

    question: str
    before: float
    after: float
    left: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Today's value, and today less the last report over the questions of both, 95 % by a paired bootstrap."""

    questions: int
    value: float
    last_made: str | None = None
    compared: int = 0
    before: float = 0.0
    after: float = 0.0
    low: float = 0.0
    high: float = 0.0
    worse: tuple[Moved, ...] = ()
    better: tuple[Moved, ...] = ()

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def drop_is_shown(self) -> bool:
        return self.compared >= LEAST and self.high < 0


def make_report(
    engine: Engine, questions: Sequence[Question], changes: Changes | None = None, indexes: Sequence[str] = ()
) -> Report:
    """The first ten passages of every question that has a relevant one; `changes`: a ranking that is switched on."""
    judged = [each for each in questions if each.grades]
    if not judged:
        raise RegressionError("no question has a relevant passage; give thumbs up, or a file of judgements")
    first = {each.question: tuple(_first(engine, each.question, changes)) for each in judged}
    chain = dict.fromkeys([*(each for each in indexes if each != fingerprint_of(engine)), fingerprint_of(engine)])
    return Report(datetime.now(UTC).isoformat(timespec="seconds"), tuple(chain), changes is not None, first)


def compare(
    engine: Engine, questions: Sequence[Question], today: Report, last: Report | None, *, seed: int = 0
) -> Comparison:
    """Today's first ten beside those of the last report, by today's judgements."""
    judged = {each.question: each for each in questions if each.question in today.first}
    value = float(np.mean([ndcg(today.first[text], each.grades) for text, each in judged.items()]))
    if last is None:
        return Comparison(len(judged), value)
    common = {text: each for text, each in judged.items() if text in last.first}
    if not common:
        return Comparison(len(judged), value, last.made)
    before = np.array([ndcg(last.first[text], each.grades) for text, each in common.items()])
    after = np.array([ndcg(today.first[text], each.grades) for text, each in common.items()])
    moved = []
    for (text, each), old, new in zip(common.items(), before.tolist(), after.tolist(), strict=True):
        if old != new:
            left = [id for id in last.first[text] if id in each.grades and id not in today.first[text]]
            gone = [id for id in each.grades if not _holds(engine, id)]
            moved.append(Moved(text, old, new, tuple(left), tuple(gone)))
    moved.sort(key=lambda each: each.after - each.before)
    return Comparison(
        len(judged), value, last.made, len(common), float(before.mean()), float(after.mean()),
        *interval(after - before, seed), tuple(each for each in moved if each.after < each.before),
        tuple(each for each in reversed(moved) if each.after > each.before),
    )  # fmt: skip


def report_file(index: Path) -> Path:
    """Where the last report of an index is kept: beside its folder."""
    return index.resolve().with_name(f"{index.resolve().name}.regression.json")


def read_report(file: Path) -> Report | None:
    """The report in a file; none where there is no file yet."""
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        first = {str(text): tuple(map(str, ids)) for text, ids in row["first"].items()}
        return Report(str(row["made"]), tuple(map(str, row["indexes"])), bool(row["changed_ranking"]), first)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RegressionError(f"{file}: not a report; delete it, and the next run begins anew") from None


def write_report(file: Path, report: Report) -> None:
    try:
        atomic_write(file, json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise RegressionError(f"{file}: cannot be written: {error.strerror}; name another with --report") from None


def read_changes(file: Path) -> Changes:
    """The ranking in `ranking.json` of `tune`, or in a proposal of `learn`: what that one recommends."""
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RegressionError(f"{file}: cannot be read: {error}; expected what `tune` or `learn` wrote") from None
    if not isinstance(row, dict):
        raise RegressionError(f"{file}: not a ranking; expected what `tune` or `learn` wrote")
    if "ranking" in row:
        return changes_of({"setting": row["ranking"]})
    changes, kind = changes_of(row), row.get("recommended", "all")
    return Changes() if kind == "nothing" else changes.only(str(kind))


def switched_on(file: Path, fingerprint: str) -> Changes | None:
    """The ranking that the server's file of learned rankings has for an index; none where nothing is switched on."""
    try:
        row = json.loads(file.read_text(encoding="utf-8"))[fingerprint]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return changes_of(row)


def as_dict(result: Comparison) -> dict[str, Any]:
    """Plain data for JSON."""
    return asdict(result) | {"difference": result.difference, "drop_is_shown": result.drop_is_shown}


def _first(engine: Engine, question: str, changes: Changes | None) -> list[str]:
    if not engine.analyze(question):
        return []
    if changes is None or changes == Changes():
        return [hit.id for hit in engine.search(Query(question), DEPTH)]
    if not isinstance(engine, HasPostings):
        raise RegressionError("this engine ranks by its own settings only; use an index of orienteer, or no --ranking")
    scores = engine.scores_with(expanded(engine, changes, question), changes.setting.similarity)
    return [engine.id_at(number) for number in best_numbers(scores, DEPTH)]


def _holds(engine: Engine, id: str) -> bool:
    try:
        engine.passages([id])
    except UnknownPassageError:
        return False
    return True
