"""`evaluate`: agents over questions, and everything that can be said about it, in one folder.

    OUT/metrics.json      {agent: {measure: value}, "_run": …}
    OUT/statistics.json   intervals, tests, results by answer overlap, headroom closed
    OUT/report.md         the paper's tables and figures, its numbers beside ours; examples/ and figures/ belong to it
    OUT/runs/, qrels.trec, sessions/
    OUT/summaries/        each agent's numbers by question, without texts; packed: OUT/summaries.jsonl.zst
    OUT/answers/          the answer generator's, where there is one
    OUT/costs/            seconds

An agent whose sessions are not there but whose summary is, is not played: tables and figures are the same from either.
Only what needs sessions is left as it is or out: its run files and its judgements in qrels.trec stay if they are
there, and it has no example sessions.

The same evaluation gives the same bytes, also when it was killed and taken up again or shared by several processes, but
for seconds: the files in `costs/`, `seconds` in metrics.json and the summaries, the last column of the report's table.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.agents import ConfiguredAgent, make_agent
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, fingerprint_of
from orienteer.errors import UnknownPassageError
from orienteer.evaluation import summaries
from orienteer.evaluation.answer_em import Generator, exact_matches
from orienteer.evaluation.figures import check_matplotlib, draw_all, draw_landscape, figure_data, read_landscape
from orienteer.evaluation.journal import (
    EvaluationError,
    Journal,
    SessionCosts,
    file_names,
    provenance,
    read_journal,
    write_json,
)
from orienteer.evaluation.ranking_measures import measure_rankings, ranking_of
from orienteer.evaluation.report import ReportData, choose_examples, combined, example_table, link, report
from orienteer.evaluation.run_files import Qrels, RunFiles
from orienteer.evaluation.sessions import (
    AgentRun,
    OnProgress,
    ProgressClock,
    Schedule,
    WorkerConfig,
    play_alike,
    play_all,
)
from orienteer.evaluation.statistics import Statistics, overlapping, statistics
from orienteer.evaluation.summaries import Summary, ranks_of
from orienteer.evaluation.tables import code
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.session import Environment, Record, Settings, from_line

CHUNK = 32  # questions a kill can cost at most, for each agent; also the batch size of sessions
_AT_ONCE = 256  # questions whose first 1,000 passages are held at a time


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out; `metrics` are those of the file, `seconds` the mean a question, reading included, where timed."""

    out: Path
    metrics: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    run: Mapping[str, Any]
    statistics: Statistics


def evaluate(
    engine: Engine,
    reader: Reader,
    questions: Iterable[Question],
    agents: Sequence[str | ConfiguredAgent],
    out: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    data: str = "questions",
    training: Iterable[Question] | None = None,
    landscape: str | os.PathLike[str] | None = None,
    chunk: int = CHUNK,
    figures: bool = True,
    texts: bool = True,
    command: str = "",
    progress: OnProgress | None = None,
    workers: WorkerConfig | None = None,
    answerer: Generator | None = None,
) -> Evaluation:
    """Plays every agent on every question, judges, and writes the folder `out`.

    agents      names of the registry, or entries with an agent of one's own
    data        what the questions are called in tables: "dev", "test"
    training    questions that agents were trained on, for results by answer overlap
    landscape   a file of measures by λ1 and λ2, to be drawn
    texts       whether the report has example sessions, which quote questions and passages
    command     the command line, for the report
    progress    called after each chunk
    workers     worker processes to play the sessions, each with an engine and a reader of its own; None: this process
    answerer    an answer generator, for EM-T5

    A folder in which this evaluation was begun is continued; agents may be added to a finished one, of which the
    summaries are enough.
    """
    if (
        workers is not None
        and (own := next((agent for agent in agents if isinstance(agent, ConfiguredAgent)), None)) is not None
    ):
        raise EvaluationError(
            f"the agent {own.name!r} is an object, which workers cannot make; name one, or leave out workers"
        )
    job = _prepare(engine, reader, questions, agents, Path(out), settings or Settings(), chunk)
    points = read_landscape(Path(landscape)) if landscape is not None else None
    if figures or points is not None:
        check_matplotlib()
    runs = [AgentRun(entry, job.environment(entry), job.journals[entry.name]) for entry in job.played]
    schedule = Schedule(runs, job.questions, chunk, job.settings, workers, job.records)
    clock = ProgressClock(job.entries, len(job.questions), progress)
    for agent in job.taken:
        clock.advance(agent, len(job.questions), 0.0)
    play_all(schedule, clock)
    with _only_one(job.out):
        return _judge(job, data, training, points, figures, texts, command, answerer)


def write_tables(folders: Mapping[str, str | os.PathLike[str]], file: str | os.PathLike[str]) -> None:
    """The paper's tables with several finished evaluations in each: {"dev": folder, "test": folder}."""
    metrics, figures = {}, {}
    for name, folder in folders.items():
        try:
            metrics[name] = json.loads((Path(folder) / "metrics.json").read_text(encoding="utf-8"))
            figures[name] = json.loads((Path(folder) / "figures.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EvaluationError(f"{folder} holds no finished evaluation: {error}; run `orienteer evaluate`") from None
        metrics[name].pop("_run", None)
    atomic_write(Path(file), combined(metrics, figures))


@dataclass(frozen=True, slots=True)
class _Job:
    """An evaluation checked and ready to begin; `taken` are the agents whose summaries stand for their sessions."""

    engine: Engine
    reader: Reader
    questions: Sequence[Question]
    questions_fingerprint: str
    entries: Sequence[ConfiguredAgent]
    journals: Mapping[str, Journal]
    settings: Settings
    out: Path
    taken: Mapping[str, Summary] = field(default_factory=dict)

    @property
    def played(self) -> list[ConfiguredAgent]:
        return [entry for entry in self.entries if entry.name not in self.taken]

    def environment(self, entry: ConfiguredAgent) -> Environment:
        return entry.environment(self.engine, self.reader)

    def records(self, entry: ConfiguredAgent) -> Iterator[Record] | None:
        """What this agent, or one that plays alike, has played to the end in this evaluation."""
        for own in self.entries:
            if play_alike(own, entry) and self.journals[own.name].file.exists():
                return read_journal(self.journals[own.name], provenance(own, self.environment(own)), self.questions)
        return None

    def summary_file(self, entry: ConfiguredAgent) -> Path:
        return self.out / "summaries" / f"{self.journals[entry.name].name}.json"

    def identity(self, entry: ConfiguredAgent) -> dict[str, Any]:
        """What the agent's summary is made from."""
        return summaries.identity(entry, provenance(entry, self.environment(entry)), self.questions_fingerprint)


def _prepare(
    engine: Engine, reader: Reader, questions: Iterable[Question], agents: Sequence[str | ConfiguredAgent], out: Path,
    settings: Settings, chunk: int,
) -> _Job:  # fmt: skip
    """Everything that can be wrong is found here, before any work starts."""
    asked = list(questions)
    if not asked:
        raise EvaluationError("no questions to evaluate on; name a file that has some")
    if not agents:
        raise EvaluationError("no agents to evaluate; name some, for example bm25,bm25+ps")
    if chunk < 1:
        raise EvaluationError(f"chunk = {chunk}; expected 1 question or more")
    if (twice := _first_twice(clean(question.id) for question in asked)) is not None:
        raise EvaluationError(f"two questions have the id {twice!r}; expected an id of its own for each")
    _check_judgements(engine, asked)
    entries = [agent if isinstance(agent, ConfiguredAgent) else make_agent(agent, engine, settings) for agent in agents]
    if (twice := _first_twice(entry.name for entry in entries)) is not None:
        raise EvaluationError(f"the agent {twice!r} is named twice; name it once")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvaluationError(f"{out}: cannot be written: {error.strerror}; choose another folder") from None
    journals = {agent: Journal(out, name) for agent, name in file_names(entry.name for entry in entries).items()}
    digest = summaries.questions_fingerprint(asked)
    job = _Job(engine, reader, asked, digest, entries, journals, settings, out)
    return replace(job, taken=_judged_before(job))


def _check_judgements(engine: Engine, questions: Sequence[Question]) -> None:
    """Raises where every figure would be 0 because the index holds no relevant passage."""
    relevant = {passage for question in questions for passage in question.grades}
    if not relevant or any(question.answers and not question.judgements for question in questions):
        return
    for passage in relevant:
        try:
            engine.passages([passage])
            return
        except UnknownPassageError:
            continue
    raise EvaluationError(
        f"the index holds none of the {len(relevant):,} passages judged relevant, such as {next(iter(relevant))!r}; "
        "index the corpus that the judgements are of"
    )


def _judged_before(job: _Job) -> dict[str, Summary]:
    """The summaries of agents that have no journal."""
    packed = summaries.packed_rows(job.out)
    taken = {}
    for entry in job.entries:
        file, row = job.summary_file(entry), packed.get(entry.name)
        if not job.journals[entry.name].begun and (file.exists() or row is not None):
            row = None if file.exists() else row
            taken[entry.name] = summaries.load(file, row, job.identity(entry), entry, len(job.questions))
    return taken


def _judge(
    job: _Job, data: str, training: Iterable[Question] | None, points: Sequence[Mapping[str, float]] | None,
    figures: bool, texts: bool, command: str, answerer: Generator | None,
) -> Evaluation:  # fmt: skip
    """Reads the finished journals through and writes all files that follow from them."""
    judged = _read_through(job)
    for each in judged:
        if each.name not in job.taken:
            costs = SessionCosts.read(job.journals[each.name].costs, each.name)
            each.seconds = costs if costs.questions else None
            summaries.save(job.summary_file(each.entry), job.identity(each.entry), each)
    if answerer is not None:
        _generate(job, judged, answerer)
    metrics = {each.name: each.means() for each in judged}
    run = _run(job, judged) | ({"answerer_fingerprint": answerer.fingerprint} if answerer is not None else {})
    overlaps = None if training is None else overlapping(job.questions, training)
    stats = statistics(judged, seed=job.settings.seed, overlaps=overlaps)
    drawing = figure_data(judged)
    files = draw_all(drawing, job.out / "figures") if figures else {}
    if points is not None:
        files["reward-landscape"] = job.out / "figures" / "reward-landscape.svg"
        draw_landscape(points, files["reward-landscape"])
    shown = _write_examples(job, judged) if texts else {}
    best = max(shown, key=lambda agent: metrics[agent]["score"], default="")
    write_json(job.out / "statistics.json", stats.as_dict())
    write_json(job.out / "figures.json", drawing)
    findings = ReportData(
        data, command, run, metrics, judged, stats, drawing,
        {name: link(file, job.out) for name, file in files.items()},
        {agent: link(file, job.out) for agent, (file, _) in shown.items()} if texts else None,
        shown[best][1] if best else "",
    )  # fmt: skip
    atomic_write(job.out / "report.md", report(findings))
    # Last, so that a folder with metrics.json in it is a finished evaluation.
    write_json(job.out / "metrics.json", {**metrics, "_run": run})
    timed = {each.name: each.seconds.seconds for each in judged if each.seconds is not None}
    return Evaluation(job.out, metrics, {name: s for name, s in timed.items() if s is not None}, run, stats)


def _read_through(job: _Job) -> list[Summary]:
    """All agents' records side by side, question by question: once through every file. Then with what was taken."""
    found = {entry.name: Summary(entry) for entry in job.played}
    if found:
        _read_journals(job, list(found.values()))
    return [job.taken.get(entry.name) or found[entry.name] for entry in job.entries]


def _read_journals(job: _Job, found: Sequence[Summary]) -> None:
    runs = [RunFiles(job.out, job.journals[each.name].name, each) for each in found]
    judgements = Qrels(job.out, more=bool(job.taken))
    journals = [
        read_journal(job.journals[entry.name], provenance(entry, job.environment(entry)), job.questions)
        for entry in job.played
    ]
    judged = any(question.judgements for question in job.questions)
    deep = judged or any(summary.refines for summary in found)
    rankings: list[dict[str, list[str]]] = [{} for _ in found]
    waiting = iter(job.questions)
    while part := list(islice(waiting, _AT_ONCE)):
        ranks = ranks_of(job.engine, [question.question for question in part]) if deep else [{}] * len(part)
        for each in ranks:
            records = [next(journal) for journal in journals]
            judgements.add(records)
            for record, summary, run, ranked in zip(records, found, runs, rankings, strict=True):
                summary.add(record, each)
                run.add(record)
                if record.question.judgements:
                    ranked[record.question.id] = ranking_of(record, each)
        if judged:
            _measure_rankings(part, found, rankings)
    for journal in journals:
        next(journal, None)  # lets it see that nothing comes after
    for run in runs:
        run.finish()
    judgements.finish()


def _measure_rankings(
    part: Sequence[Question], found: Sequence[Summary], rankings: Sequence[dict[str, list[str]]]
) -> None:
    """Adds the measures by judgements of these questions to each agent's, and empties the rankings."""
    grades = {clean(question.id): dict(question.judgements) for question in part if question.judgements}
    for summary, ranked in zip(found, rankings, strict=True):
        values = measure_rankings(ranked, grades)
        for name, by_question in values.items():
            summary.ranking.setdefault(name, []).extend(by_question.get(clean(q.id), np.nan) for q in part)
        ranked.clear()


def _generate(job: _Job, judged: Sequence[Summary], answerer: Generator) -> None:
    """Every agent's questions answered from its final passages."""
    known: dict[str, str] = {}
    for each in judged:
        file = job.out / "answers" / f"{job.journals[each.name].name}.jsonl"
        each.generated = exact_matches(answerer, job.engine, job.questions, each.final, file, known)


def _write_examples(job: _Job, judged: Sequence[Summary]) -> dict[str, tuple[Path, str]]:
    """Agent → the file of its examples, and what it says; of agents whose sessions are here."""
    written = {}
    for summary in judged:
        here = summary.refines and summary.name not in job.taken
        chosen = choose_examples(summary.values["reward"]) if here else {}
        if not chosen:
            continue
        parts = []
        lines = _lines(job.journals[summary.name].file, set(chosen.values()))
        for rule, place in chosen.items():
            record = from_line(lines[place])
            [ranks] = ranks_of(job.engine, [record.question.question])
            gain = summary.values["reward"][place]
            parts.append(f"### {rule} of {code(summary.name)}: {gain:+.3f}\n\n{example_table(record, ranks)}")
        file = job.out / "examples" / f"{job.journals[summary.name].name}.md"
        text = "\n".join(parts)
        atomic_write(file, f"# Example sessions of {code(summary.name)}\n\n{text}")
        written[summary.name] = (file, text)
    return written


def _run(job: _Job, judged: Sequence[Summary]) -> dict[str, Any]:
    return {
        "n": len(job.questions),
        "judged": judged[0].judged,
        "settings": job.settings.as_dict(),
        "index_fingerprint": fingerprint_of(job.engine),
        "reader_fingerprint": fingerprint_of(job.reader),
        "questions_fingerprint": job.questions_fingerprint,
        "agents": {entry.name: entry.settings.as_dict() for entry in job.entries},
        "orienteer": version("orienteer"),
    }


def _lines(file: Path, places: set[int]) -> dict[int, bytes]:
    with file.open("rb") as opened:
        return {place: line for place, line in enumerate(opened) if place in places}


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """One process at a time writes what follows from the journals; each writes the same."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
