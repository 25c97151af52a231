"""The demo: an agent asks the bundled corpus one question, then a line of measured figures; some seconds.

`compare` plays all bundled questions instead, a minute or two: it shows the first of the training questions whose own
five passages do not hold the answer, while the first passage in the end gives it, and compares the agent with plain
reading on the questions set aside. Where no reader is shipped, a tour of the operators instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape as plain
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.defaults import AGENT, ORDER, STEPS
from orienteer.query import Query, Refinement, parse

if TYPE_CHECKING:
    from orienteer.engine import Engine
    from orienteer.reader import Reader
    from orienteer.session import Environment, Seconds, SeenPassage, Session

# Chosen to show a session at its best: of 260 training questions it is one of two whose right answer a refinement
# brought to the first place with a probability above 0.35.
QUESTION = "which indian mathematician worked out that a himalayan summit was higher than all others"
BASELINE = "bm25+ps"
RESULTS = Path(__file__).parents[2] / "results" / "agents" / "test" / "metrics.json"
_TOGETHER = 16  # sessions in one batch; the one to show is found in the first batches

TOUR = "which pupil suggested the name of the very first martian rover"
REFINEMENTS = (
    Refinement("+", "title", "rover"),
    Refinement("-", "title", "curiosity"),
    Refinement("-", "title", "perseverance"),
)


def run_demo(out: Console, question: str = "", compare: bool = False) -> None:
    """Ask the bundled corpus: the given question, or ours; with `compare` all of its questions."""
    from orienteer.errors import ModelMissingError
    from orienteer.reader import TrainedReader

    engine = bundled_engine()
    try:
        reader = TrainedReader.from_pretrained()
    except ModelMissingError:
        _tour(out, engine, question)
    else:
        if compare:
            compare_all(out, engine, reader)
        else:
            ask_one(out, engine, reader, question.strip() or QUESTION)
            if (figures := measured()) and not question.strip():
                out.print(f"\n{figures}", soft_wrap=True)
    program = sys.argv[0] if Path(sys.argv[0]).name == "orienteer" else "orienteer"
    out.print(f"\n[bold]Watch it on a page, and steer it:[/] {plain(program)} serve --open", soft_wrap=True)


def ask_one(out: Console, engine: Engine, reader: Reader, question: str) -> None:
    """A session of the default agent, the answer first."""
    from orienteer.api import Searcher
    from orienteer.session.display import answer_lines, printable

    out.print(f"[bold]{plain(printable(question))}[/]\n", soft_wrap=True)
    answer = Searcher(engine, reader=reader).ask(question)
    for line in answer_lines(answer.record, trail=True, seconds=answer.cost.seconds):
        out.print(line, soft_wrap=True)


def measured(results: Path = RESULTS) -> str:
    """A line of figures from the evaluation in `results/`; empty in an installation without it."""
    try:
        rows = json.loads(results.read_text())
        plain_reading, agent = rows[BASELINE], rows[AGENT]
        parts = [f"{name} {plain_reading[name]:.1f} → {agent[name]:.1f}" for name in ("NDCG@5", "Top-5")]
        questions, steps = int(rows["_run"]["n"]), int(rows["_run"]["settings"]["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return (
        f"[bold]Measured[/] on {questions:,} questions over 880,000 passages of Wikipedia, {BASELINE} → {AGENT} "
        f"with {steps} refinements: {', '.join(parts)} (results/agents/test). [dim]make demo-all compares them here.[/]"
    )


def compare_all(out: Console, engine: Engine, reader: Reader) -> None:
    """The session that a refinement helped first, then all questions set aside in a line."""
    from orienteer.agents import make_agent
    from orienteer.session import Settings, play

    entry = make_agent(AGENT, engine, Settings(steps=STEPS, order=ORDER))
    environment = entry.environment(engine, reader)
    sought: list[Session] = []
    for batch in play(environment, entry.agent, bundled_questions("train"), batch_size=_TOGETHER):
        sought += batch
        if first_helped(batch):
            break
    helped = first_helped(sought) or max(sought, key=lambda each: each.reward or 0.0)
    _show_session(out, environment, helped)
    questions = bundled_questions("test")
    batches = play(environment, entry.agent, questions, batch_size=_TOGETHER)
    sessions = [session for batch in _with_progress(out, batches, len(questions)) for session in batch]
    first, last = (Outcome.mean(each) for each in zip(*map(outcomes, sessions), strict=True))
    out.print()
    out.print(
        f"[bold]All {len(sessions):,} questions set aside[/], bm25+ps → {AGENT} ({STEPS} refinements): "
        f"right answer first [bold]{first.exact:.1%} → {last.exact:.1%}[/], "
        f"answer in the best five {first.found:.1%} → {last.found:.1%}, "
        f"score {first.score:.3f} → {last.score:.3f}; "
        f"passages read {first.read:.1f} → {last.read:.1f} a question, {environment.seconds.total:.0f} s",
        soft_wrap=True,
    )


def first_helped(sessions: Iterable[Session]) -> Session | None:
    """The first session that found the answer where the question's own five passages did not hold it."""
    for session in sessions:
        before, after = outcomes(session)
        if not before.found and after.exact:
            return session
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Best passages judged: the first gives the right answer, any holds it, S; and how many were read. Or means."""

    exact: float
    found: float
    score: float
    read: float

    @classmethod
    def mean(cls, many: Sequence[Outcome]) -> Outcome:
        columns = ([getattr(each, name) for each in many] for name in ("exact", "found", "score", "read"))
        return cls(*(sum(column) / len(column) for column in columns))


def outcomes(session: Session) -> tuple[Outcome, Outcome]:
    """After the question itself, which is bm25+ps on the same passages, and at the end."""
    if not session.steps:
        return Outcome(0, 0, 0, 0), Outcome(0, 0, 0, 0)
    seen = {each.passage.id: each for each in session.seen}
    first = session.steps[0]
    before = _outcome([seen[id] for id in first.best], first.score.total if first.score else 0.0, len(first.hits))
    return before, _outcome(session.best, session.score.total if session.score else 0.0, session.passages_read)


def _outcome(best: Sequence[SeenPassage], score: float, read: int) -> Outcome:
    return Outcome(bool(best and best[0].exact), any(each.relevant for each in best), score, read)


def _show_session(out: Console, environment: Environment, session: Session, seconds: Seconds | None = None) -> None:
    from orienteer.session import record
    from orienteer.session.display import console_lines

    for line in console_lines(record(session, environment, AGENT), seconds=seconds):
        out.print(line, soft_wrap=True)


def _with_progress(out: Console, batches: Iterator[list[Session]], total: int) -> Iterator[list[Session]]:
    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TextColumn("questions"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("reading", total=total)
        for batch in batches:
            yield batch
            bar.advance(task, len(batch))


def _tour(out: Console, engine: Engine, query: str) -> None:
    """The operators, one after the other; or one query in Lucene's syntax."""
    shown = parse(query) if query else Query(TOUR)
    _show_hits(out, engine, shown)
    for refinement in () if query else REFINEMENTS:
        shown = shown.refine(refinement)
        _show_hits(out, engine, shown)


def _show_hits(out: Console, engine: Engine, query: Query) -> None:
    clauses = " ".join(f"[bold yellow]{plain(str(refinement))}[/]" for refinement in query.refinements)
    out.print(f"\n[bold]{plain(query.question)}[/] {clauses}", soft_wrap=True)
    hits = list(engine.search(query, 3))
    if not hits:
        out.print("  [dim]no passage matches[/]")
    for rank, (hit, passage) in enumerate(zip(hits, engine.passages([hit.id for hit in hits]), strict=True), 1):
        out.print(f"  {rank}. {hit.score:7.3f}  [cyan]{plain(passage.title)}[/]", soft_wrap=True)
        if rank == 1:
            out.print(f"     [dim]{plain(passage.text)}[/]")
