"""`train confidence`: when an answer may be believed, from sessions with known answers and with answers removed."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from orienteer.commands.options import with_options
from orienteer.commands.terminal import out, progress
from orienteer.commands.training import World, questions_of
from orienteer.defaults import AGENT, ORDER, STEPS
from orienteer.errors import OrienteerError
from orienteer.training.config import option
from orienteer.workers import Progress

if TYPE_CHECKING:
    from orienteer.data import Question
    from orienteer.engine.protocol import Engine
    from orienteer.evaluation.confidence import Judgements
    from orienteer.evaluation.confidence_report import ConfidenceReport
    from orienteer.session.confidence import ConfidenceModel

_BATCH_SIZE = 20  # sessions
_FIT_STEPS = (0, 2, None)  # a session is learned from after these steps: sessions of any length must be judged well


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceOptions:
    questions: tuple[Path, ...] = option("questions with answers to fit on; may be repeated", ())
    weights: str = option("judge these weights and fit none: a confidence.json, or `shipped`", "")
    index: Path = option("the index to search")
    out: Path = option("folder for confidence.json, the sessions played so far and, with --judge, the report")
    source: str = option("only questions whose source begins with this, such as nq", "")
    count: int = option("questions of each file, drawn at random", 180, min=10)
    removed: int = option("of all of these, how many are asked also with their answers removed", 150, min=0)
    corpora: int = option("small collections drawn from the index, of 300, 1,000 and 3,000 passages in turn", 3, min=0)
    small: int = option("questions that each of them, and the bundled corpus, answers; half as many others", 30, min=1)
    agent: str = option("whose sessions to fit on", AGENT)
    steps: int = option("refinements of a session", STEPS, min=0)
    judge: Path | None = option("questions to judge on, none of them fitted on", None)
    judge_agent: str = option("whose sessions to judge on", AGENT)
    judge_count: int = option("only the first so many of them; 0: all", 0, min=0)
    judge_removed: int = option("of these, how many are asked also with their answers removed", 200, min=0)
    bundled: int = option("questions of the bundled corpus to judge on; 0: neither this corpus nor manuals", 100, min=0)
    loss: float = option("share of right answers that may be declined", 0.1, min=0.0, max=1.0)
    reader: Path | None = option("folder of a reader; none: the shipped one", None)
    cache: Path | None = option("file of readings, so that a passage is read once", None)
    seed: int = option("decides every draw", 0)
    threads: int = option("threads to use", 2, min=1)


@with_options(ConfidenceOptions)
def train_confidence(options: ConfidenceOptions) -> None:
    """Fit the probability that an answer is right, and tell what it is worth on questions held out.

    Sessions are played over the index; over the index with every passage removed that holds an answer, where every
    answer is wrong; and over small collections, the bundled corpus and others drawn from the index, which answer some
    of their questions and not others.
    A command that was stopped goes on where it was: OUT/sessions keeps what was played.
    OUT/confidence.json goes to `orienteer/session/`.

    orienteer train confidence --questions dev-who.jsonl --questions train-weak.jsonl --source nq --index INDEX
    --judge dev.jsonl --cache readings.db --out OUT

    orienteer train confidence --weights shipped --judge dev.jsonl --judge-count 300 --index INDEX --out OUT
    """
    from orienteer.evaluation.confidence_report import declined_at_loss, report

    if bool(options.questions) == bool(options.weights):
        raise OrienteerError("give either --questions to fit on, or --weights that are fitted")
    world = World(options.index, options.reader, options.cache, options.threads)
    with progress("sessions") as show:
        model = _model(world, options, show)
        judged = {
            part.name: _judgements(part, options.judge_agent, world, options, show).last
            for part in _parts_to_judge(world, options)
        }
    if options.judge is None:
        return
    reports = {name: report(model, each) for name, each in _sets(judged).items()}
    at_loss = {}
    if "answers removed" in judged:
        at_loss = declined_at_loss(model, judged["answerable"], judged["answers removed"])
    _write_report(options, model, reports, at_loss)
    out.print(_table(reports))


def _model(world: World, options: ConfidenceOptions, show: Callable[[Progress, str], None]) -> ConfidenceModel:
    """The weights that were given, or new ones."""
    from orienteer.data.atomic import atomic_write
    from orienteer.evaluation.confidence import Judgements, fit_confidence
    from orienteer.session.confidence import load_model, shipped_model

    if options.weights:
        return shipped_model() if options.weights == "shipped" else load_model(Path(options.weights))
    judgements = [_judgements(part, options.agent, world, options, show) for part in _parts_to_fit(world, options)]
    model = fit_confidence(Judgements.joined(judgements), options.loss)
    atomic_write(options.out / "confidence.json", json.dumps(model.as_dict(), indent=1) + "\n")
    out.print(f"{options.out / 'confidence.json'}: declines below {model.threshold:.3f}")
    return load_model(options.out / "confidence.json")  # as it will be used: its numbers are rounded


@dataclass(frozen=True, slots=True)
class _Part:
    """Questions over one engine; `removed`: no passage holds their answers."""

    name: str
    engine: Engine
    questions: Sequence[Question]
    removed: bool = False


def _parts_to_fit(world: World, options: ConfidenceOptions) -> Iterator[_Part]:
    from orienteer.bundled import bundled_engine, bundled_questions
    from orienteer.engine import EmbeddedEngine
    from orienteer.evaluation.small_corpora import SIZES, draw_corpus
    from orienteer.evaluation.unanswerable import WithoutAnswers

    drawn = [_drawn(path, options) for path in options.questions]
    large = [each for some in drawn for each in some[: options.count]]
    rest = _shuffled([each for some in drawn for each in some[options.count :]], options.seed)
    engine, _ = world.open()
    yield _Part("the index", engine, large)
    removed = _shuffled(large, options.seed)[: options.removed]
    yield _Part("the index, answers removed", WithoutAnswers(engine, removed), removed, removed=True)
    if options.bundled:
        small = bundled_engine()
        yield _Part("bundled", small, _shuffled(bundled_questions("train"), options.seed)[: options.small])
        foreign = large[: options.small // 2]
        yield _Part("bundled, not answered", WithoutAnswers(small, foreign), foreign, removed=True)
    if not options.corpora:
        return
    if not isinstance(engine, EmbeddedEngine):
        raise OrienteerError("small collections are drawn from an embedded index only; or give --corpora 0")
    half = options.small // 2
    for number in range(options.corpora):
        size = SIZES[number % len(SIZES)]
        some, rest = rest[: 3 * options.small], rest[3 * options.small :]
        corpus = draw_corpus(engine, some[: 2 * options.small], some[2 * options.small :], size, options.seed + number)
        answered = corpus.answered[: options.small]
        name = f"{size:,} passages, number {number + 1}"
        yield _Part(name, corpus.engine, answered)
        without = [*answered[: half // 2], *corpus.foreign[: half - half // 2]]
        yield _Part(f"{name}, not answered", WithoutAnswers(corpus.engine, without), without, removed=True)


def _parts_to_judge(world: World, options: ConfidenceOptions) -> Iterator[_Part]:
    from orienteer.bundled import bundled_engine, bundled_questions, manuals_engine
    from orienteer.evaluation.unanswerable import WithoutAnswers

    if options.judge is None:
        return
    asked = questions_of([options.judge])[: options.judge_count or None]
    if options.bundled:
        small = bundled_engine()
        yield _Part("bundled", small, _shuffled(bundled_questions("test"), options.seed)[: options.bundled])
        foreign = _shuffled(asked, options.seed)[: options.bundled // 2]
        yield _Part("bundled, not answered", WithoutAnswers(small, foreign), foreign, removed=True)
        manuals, questions = manuals_engine(), bundled_questions("manuals")
        yield _Part("manuals", manuals, [each for each in questions if each.answers])
        yield _Part("manuals, odd questions", manuals, [each for each in questions if not each.answers], removed=True)
    engine, _ = world.open()
    yield _Part("answerable", engine, asked)
    removed = asked[: options.judge_removed]
    if removed:
        yield _Part("answers removed", WithoutAnswers(engine, removed), removed, removed=True)


def _sets(judged: dict[str, Judgements]) -> dict[str, Judgements]:
    """Each part, and what is answerable together with what is not."""
    from orienteer.evaluation.confidence import Judgements

    together = {
        "both": ("answerable", "answers removed"), "bundled, both": ("bundled", "bundled, not answered"),
        "manuals, both": ("manuals", "manuals, odd questions"),
    }  # fmt: skip
    sums = {name: Judgements.joined([judged[each] for each in parts if each in judged]) for name, parts in
            together.items() if all(each in judged for each in parts)}  # fmt: skip
    return {**judged, **sums}


def _drawn(path: Path, options: ConfidenceOptions) -> list[Question]:
    """The file's questions of the source, shuffled."""
    every = [each for each in questions_of([path]) if each.answers]
    some = [each for each in every if each.source.startswith(options.source)]
    if not some:
        raise OrienteerError(f"{path}: no question with answers and a source that begins with {options.source!r}")
    return _shuffled(some, options.seed)


def _shuffled(questions: Sequence[Question], seed: int) -> list[Question]:
    return random.Random(seed).sample(questions, len(questions))


def _judgements(
    part: _Part, agent: str, world: World, options: ConfidenceOptions, show: Callable[[Progress, str], None]
) -> Judgements:
    """The part's sessions, from OUT/sessions as far as they were played before."""
    from orienteer.agents.registry import make_agent
    from orienteer.engine.protocol import fingerprint_of
    from orienteer.evaluation.confidence import Judgements
    from orienteer.session import Settings, play
    from orienteer.session.confidence import FEATURES
    from orienteer.training.example_cache import build, read

    _, reader = world.open()

    def batches(done: int) -> Iterator[list[dict[str, Any]]]:
        rest = part.questions[done * _BATCH_SIZE :]
        made = make_agent(agent, part.engine, Settings(steps=options.steps, order=ORDER))
        environment = made.environment(part.engine, reader)
        for sessions in play(environment, made.agent, rest, batch_size=_BATCH_SIZE):
            yield list(Judgements.of(sessions, part.removed, _FIT_STEPS).to_rows())

    decides = [
        [each.identity for each in part.questions], fingerprint_of(part.engine), fingerprint_of(reader),
        agent, options.steps, part.removed, FEATURES, _FIT_STEPS,
    ]  # fmt: skip
    folder = options.out / "sessions" / hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
    total = len(part.questions)
    show(Progress(0, total), part.name)
    build(folder, batches, lambda done: show(Progress(min(done * _BATCH_SIZE, total), total), part.name))
    return Judgements.from_rows(list(read(folder)))


def _write_report(
    options: ConfidenceOptions,
    model: ConfidenceModel,
    reports: dict[str, ConfidenceReport],
    at_loss: dict[float, float],
) -> None:
    """`report.json`, `report.md` and `risk-coverage.svg`."""
    from orienteer.data.atomic import atomic_write
    from orienteer.evaluation.confidence_report import as_markdown, draw_risk_coverage

    row: dict[str, Any] = {
        "judged on": options.judge.name if options.judge else "", "agent": options.judge_agent,
        "steps": options.steps, "threshold": round(model.threshold, 4),
        **{name: each.as_dict() for name, each in reports.items()},
        "declined at loss": {str(loss): round(declined, 4) for loss, declined in at_loss.items()},
    }  # fmt: skip
    atomic_write(options.out / "report.json", json.dumps(row, indent=1) + "\n")
    atomic_write(options.out / "report.md", as_markdown(reports, at_loss))
    draw_risk_coverage(options.out / "risk-coverage.svg", reports)


def _table(reports: dict[str, ConfidenceReport]) -> Table:
    from orienteer.evaluation.confidence_report import rows_of

    names = list(reports)
    table = Table("", *names, box=None)
    for row in rows_of(reports):
        table.add_row(*row)
    return table
