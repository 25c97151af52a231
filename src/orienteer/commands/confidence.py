"""`train confidence`: when an answer may be believed, from sessions with known answers and with answers removed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from orienteer.commands.options import with_options
from orienteer.commands.terminal import out, progress
from orienteer.commands.training import World, questions_of
from orienteer.defaults import AGENT, STEPS
from orienteer.errors import OrienteerError
from orienteer.training.config import option
from orienteer.workers import Progress

if TYPE_CHECKING:
    from orienteer.data import Question
    from orienteer.engine.protocol import Engine
    from orienteer.evaluation.confidence import ConfidenceReport, Judgements
    from orienteer.reader.protocol import Reader
    from orienteer.session.confidence import ConfidenceModel

_BATCH_SIZE = 20  # sessions
_FIT_STEPS = (0, 5, None)  # a session is learned from after these steps: sessions of any length must be judged well
_REMOVED = 3, 7  # three of seven questions are also asked with their answers removed


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceOptions:
    questions: tuple[Path, ...] = option("questions with answers to fit on; may be repeated")
    index: Path = option("the index to search")
    out: Path = option("folder for confidence.json and, with --judge, the report")
    source: str = option("only questions whose source begins with this, such as nq", "")
    count: int = option("questions of each file, drawn at random", 600, min=10)
    agent: str = option("whose sessions to fit on", "prf-answer")
    steps: int = option("refinements of the sessions to fit on", 10, min=0)
    bundled: int = option("questions of the bundled corpus to fit on too: a small collection", 300, min=0)
    judge: Path | None = option("questions to judge on, none of them fitted on", None)
    judge_agent: str = option("whose sessions to judge on", AGENT)
    judge_steps: int = option("refinements of the sessions to judge on", STEPS, min=0)
    judge_count: int = option("only the first so many of them; 0: all", 0, min=0)
    loss: float = option("share of right answers that may be declined", 0.1, min=0.0, max=1.0)
    reader: Path | None = option("folder of a reader; none: the shipped one", None)
    cache: Path | None = option("file of readings, so that a passage is read once", None)
    seed: int = option("decides every draw", 0)
    threads: int = option("threads to use", 2, min=1)


@with_options(ConfidenceOptions)
def train_confidence(options: ConfidenceOptions) -> None:
    """Fit the probability that an answer is right, and tell what it is worth on questions held out.

    Three of seven questions are also asked with every passage removed that holds an answer: then every answer is wrong.
    Sessions of the bundled corpus are fitted on too, since few passages agree in a small collection.
    OUT/confidence.json goes to `orienteer/session/`. With a file of readings it takes minutes.

    orienteer train confidence --questions dev-who.jsonl --questions train-weak.jsonl --source nq --index INDEX
    --judge dev.jsonl --cache readings.db --out OUT
    """
    from orienteer.bundled import bundled_engine, bundled_questions
    from orienteer.data.atomic import atomic_write
    from orienteer.evaluation.confidence import fit_confidence, report

    world = World(options.index, options.reader, options.cache, options.threads)
    chosen = [each for path in options.questions for each in _drawn(path, options)]
    judged = _judged(*world.open(), chosen, options.agent, options.steps, _FIT_STEPS)
    if options.bundled:
        some = _shuffled(bundled_questions("train"), options.seed)[: options.bundled]
        judged += _judged(bundled_engine(), world.open()[1], some, options.agent, options.steps, _FIT_STEPS)
    model = fit_confidence(judged, options.loss)
    atomic_write(options.out / "confidence.json", json.dumps(model.as_dict(), indent=1) + "\n")
    out.print(f"{options.out / 'confidence.json'}: declines below {model.threshold:.3f}")
    if options.judge is None:
        return
    asked = questions_of([options.judge])[: options.judge_count or None]
    judged = _judged(*world.open(), asked, options.judge_agent, options.judge_steps)
    reports = {name: report(model, part) for name, part in _parts(judged).items()}
    if options.bundled:
        some = _shuffled(bundled_questions("test"), options.seed)[: options.bundled]
        small = _judged(bundled_engine(), world.open()[1], some, options.judge_agent, options.judge_steps)
        reports["bundled, both"] = report(model, small)
    _write_report(options, model, reports)
    out.print(_table(reports))


def _drawn(path: Path, options: ConfidenceOptions) -> list[Question]:
    """Some of the file's questions; of a file none of which has the source, of all of them."""
    every = [each for each in questions_of([path]) if each.answers]
    some = [each for each in every if each.source.startswith(options.source)]
    if not some:
        raise OrienteerError(f"{path}: no question with answers and a source that begins with {options.source!r}")
    return _shuffled(some, options.seed)[: options.count]


def _shuffled(questions: list[Question], seed: int) -> list[Question]:
    return random.Random(seed).sample(questions, len(questions))


def _judged(
    engine: Engine, reader: Reader, questions: Sequence[Question], agent: str, steps: int,
    at: Sequence[int | None] = (None,),
) -> Judgements:  # fmt: skip
    """Sessions of all questions, and of three of seven with their answers removed."""
    from orienteer.agents.registry import make_agent
    from orienteer.evaluation.confidence import Judgements
    from orienteer.evaluation.unanswerable import WithoutAnswers
    from orienteer.session import Settings, play

    part, whole = _REMOVED
    removed = [each for place, each in enumerate(questions) if place % whole < part]
    judged: list[Judgements] = []
    done, total = 0, len(questions) + len(removed)
    with progress("sessions") as show:
        for asked, searched in ((questions, engine), (removed, WithoutAnswers(engine, removed))):
            entry = make_agent(agent, searched, Settings(steps=steps))
            for batch in play(entry.environment(searched, reader), entry.agent, asked, batch_size=_BATCH_SIZE):
                if found := [each for each in batch if each.best]:
                    judged.append(Judgements.of(found, asked is removed, at))
                done += len(batch)
                show(Progress(done, total), agent if asked is questions else f"{agent}, answers removed")
    if not judged:
        raise OrienteerError("no session found a passage; give other questions, or another index")
    return sum(judged[1:], judged[0])


def _parts(judged: Judgements) -> dict[str, Judgements]:
    return {
        "answerable": judged.part(~judged.removed),
        "answers removed": judged.part(judged.removed),
        "both": judged,
    }


def _write_report(options: ConfidenceOptions, model: ConfidenceModel, reports: dict[str, ConfidenceReport]) -> None:
    from orienteer.data.atomic import atomic_write
    from orienteer.evaluation.confidence import draw_risk_coverage

    row: dict[str, Any] = {
        "judged on": options.judge.name if options.judge else "", "agent": options.judge_agent,
        "steps": options.judge_steps, "threshold": round(model.threshold, 4),
        **{name: each.as_dict() for name, each in reports.items()},
    }  # fmt: skip
    atomic_write(options.out / "report.json", json.dumps(row, indent=1) + "\n")
    draw_risk_coverage(options.out / "risk-coverage.svg", reports)


def _table(reports: dict[str, ConfidenceReport]) -> Table:
    table = Table("measure", *reports, box=None)
    for name in (
        "questions", "right", "exact", "first_passage_holds", "auroc", "auroc_ps", "auroc_exact", "auroc_holds",
        "calibration_error", "precision", "precision_holds", "declined", "right_declined", "precision_given",
    ):  # fmt: skip
        values = [getattr(each, name) for each in reports.values()]
        if isinstance(values[0], dict):
            for key in values[0]:
                table.add_row(f"{name} at {key}", *(f"{value[key]:.3f}" for value in values))
        else:
            table.add_row(name, *(f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values))
    return table
