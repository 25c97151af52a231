"""Sessions for people: `console_lines` for the terminal, `session_html` and `record_html` for a notebook.

Both show each query with its operators coloured, what it changed, and the best passages. As in the paper's examples
(`tab:episode_example_bake`), an answer is blue where it is right and red where it is wrong. In HTML every text is
escaped and all style is inline, so that retrieved text cannot inject anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from rich.text import Text

from orienteer.query import Refinement, parse
from orienteer.reader.decoding import snippet
from orienteer.session.confidence import shipped_model
from orienteer.session.environment import Seconds
from orienteer.session.record import Record, RecordedPassage, RecordedStep
from orienteer.session.state import Read, Session, Undo

_PAGE = re.compile(r", pages? [\d–]+$")
_TERMINAL_STYLES = {"or": "green", "+": "bold green", "-": "bold red", "^": "bold yellow"}


def console_lines(record: Record, *, every_step: bool = False, seconds: Seconds | None = None) -> Iterator[Text]:
    """A session step by step, its answer last; `every_step`: with the best passages after each that changed them."""
    yield from _terminal_trail(record, every_step)
    if record.steps and not every_step:
        yield Text()
        yield from _terminal_passages(record, record.steps[-1])
    yield Text()
    yield _terminal_ending(record)
    yield _terminal_cost(record, seconds)


def answer_lines(record: Record, *, trail: bool = False, seconds: Seconds | None = None) -> Iterator[Text]:
    """A session for somebody who wants the answer: it comes first, then the passages, and how they were found.

    Of the trail only the steps that changed the best passages; all of them with `trail`.
    """
    yield _terminal_ending(record)
    if record.steps:
        yield from _terminal_passages(record, record.steps[-1])
        yield Text()
        quiet = [step for step in record.steps[1:] if not (step.entered or step.left)]
        yield from _terminal_trail(record, passages=False, quiet=trail)
        if quiet and not trail:
            yield Text(f"    {len(quiet)} steps that changed nothing are left out; --trail shows them", "dim")
    yield _terminal_cost(record, seconds)


def _terminal_trail(record: Record, passages: bool, quiet: bool = True) -> Iterator[Text]:
    """The queries and what each changed; `quiet`: also those that changed nothing."""
    for number, step in enumerate(record.steps):
        if not (quiet or step.entered or step.left or not number):
            continue
        yield _terminal_headline(number, step)
        if not step.hits:
            yield Text("    nothing found" + ("; taken back" if number and record.ended != "dead end" else ""), "dim")
        elif step.entered or step.left:
            yield _terminal_changes(record, step)
        if passages and step.entered:
            yield from _terminal_passages(record, step)


def _terminal_headline(number: int, step: RecordedStep) -> Text:
    line = Text().append(f"q{number} ", "bold")
    query = parse(step.query)
    line.append(printable(query.question))
    for refinement in query.refinements:
        newest = refinement == step.action
        line.append(" ").append(
            printable(str(refinement)), _TERMINAL_STYLES[refinement.op] + ("" if newest else " not bold dim")
        )
    if isinstance(step.action, Undo):
        line.append("  (taken back)", "dim")
    if isinstance(step.action, Read):
        line.append(f"  (reads {len(step.action.passages)} more)", "dim")
    if step.score is not None:
        line.append(f"  {step.score.total:.3f}", "cyan")
    return line


def _terminal_changes(record: Record, step: RecordedStep) -> Text:
    line = Text("    ")
    for sign, ids, style in (("+", step.entered, "green"), ("-", step.left, "red")):
        for id in ids:
            line.append(f"{sign} {_name(record, id)}  ", style)
    return line


def _name(record: Record, id: str) -> str:
    """The passage's title; where another passage has the same one, with its page."""
    passage = record.passages[id]
    twins = sum(each.title == passage.title for each in record.passages.values()) > 1
    page = _PAGE.search(passage.source or "") if twins else None
    return printable(f"{passage.title}{page[0] if page else ''}" if passage.title else id)


def _terminal_passages(record: Record, step: RecordedStep) -> Iterator[Text]:
    for rank, id in enumerate(step.best, 1):
        passage = record.passages[id]
        line = Text().append(f"  {rank}. ", "bold")
        line.append(printable(passage.title or "(no title)"), "bold")
        line.append(f"  PS {passage.score:.3f}  {printable(passage.source or id)}", "dim")
        yield line
        yield _terminal_marked(passage)


def _terminal_marked(passage: RecordedPassage) -> Text:
    """The snippet with the answer in its colour: blue right, red wrong, yellow where no answer is known."""
    text, answer = printable(passage.text or ""), printable(passage.answer or "")
    line = Text("     ")
    style = "bold yellow" if passage.exact is None else "bold blue" if passage.exact else "bold red"
    # The answer as whole words where possible: "210" rather than the end of "1210".
    place = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) or re.search(re.escape(answer), text)
    start, end = place.span() if place else (0, 0)
    return line.append(text[:start]).append(text[start:end], style).append(text[end:])


def _terminal_ending(record: Record) -> Text:
    if not record.steps or not record.best:
        return Text(f"No passage found. {printable(record.error)}".strip(), "bold red")
    line = _terminal_answer(record)
    if record.question.answers:
        line.append(f"  expected: {printable(' | '.join(record.question.answers))}", "dim")
    if record.error:
        line.append(f"\n{printable(record.error)}", "red")
    return line


def _terminal_answer(record: Record) -> Text:
    answer = printable(record.answer) or "(none)"
    if record.confidence is None:
        return Text().append("Answer: ", "bold").append(answer, "bold yellow")
    answer = printable(record.explanation) or answer
    judged = shipped_model().judged(record.confidence)
    share = f"{judged.probability:.0%}"
    if judged.answers:
        line = Text().append("Answer: ", "bold").append(answer, "bold yellow")
        return line.append(f"  {judged.words} ({share})", "dim")
    line = Text().append("The documents do not seem to answer this.", "bold")
    return line.append(f" The nearest passages follow; best guess: {answer} ({share})", "dim")


def _terminal_cost(record: Record, seconds: Seconds | None) -> Text:
    line = Text(f"{record.queries} queries, {len(record.passages)} passages read", "dim")
    if seconds is not None and not seconds.reader:
        line.append(f", {seconds.total:.1f} s by the server that runs")
    elif seconds is not None:
        line.append(
            f", {seconds.total:.1f} s (engine {seconds.engine:.1f}, reader {seconds.reader:.1f}, "
            f"agent {seconds.agent:.1f})"
        )
    return line


def printable(text: str) -> str:
    """White space folded, control characters gone: retrieved text must not drive the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


_COLOURS = {"or": "#1f4f82", "+": "#19602f", "-": "#99201f", "^": "#744800"}
_MARKS = {None: "#fbecb0", True: "#cfe2fb", False: "#fbd9d5"}  # no answer known, right, wrong
_WORDS = 40


@dataclass(frozen=True, slots=True)
class _Passage:
    title: str
    text: str
    answer: str
    score: float
    exact: bool | None


@dataclass(frozen=True, slots=True)
class _Step:
    query: str
    entered: Sequence[str]
    left: Sequence[str]
    dead_end: bool
    total: float | None


def session_html(session: Session) -> str:
    """A session at work or at its end."""
    steps = [
        _Step(str(s.query), s.entered, s.left, s.dead_end, s.score.total if s.score else None) for s in session.steps
    ]
    passages = {
        each.passage.id: _Passage(
            each.passage.title, snippet(each.passage.text, each.reading.start, each.reading.end, _WORDS),
            each.reading.answer, each.reading.score, each.exact,
        )
        for each in session.seen
    }  # fmt: skip
    best = [each.passage.id for each in session.best]
    return _html(session.question.question, steps, passages, best, session.queries, session.error)


def record_html(record: Record) -> str:
    """A recorded session."""
    steps = [
        _Step(s.query, s.entered, s.left, not s.hits, s.score.total if s.score else None) for s in record.steps
    ]  # fmt: skip
    passages = {
        id: _Passage(p.title or "", p.text or "", p.answer or "", p.score, p.exact)
        for id, p in record.passages.items()
    }  # fmt: skip
    return _html(record.question.question, steps, passages, record.best, record.queries, record.error)


def _html(
    question: str,
    steps: Sequence[_Step],
    passages: Mapping[str, _Passage],
    best: Sequence[str],
    queries: int,
    error: str,
) -> str:
    answer = passages[best[0]].answer if best else ""
    parts = [
        '<div style="font:14px/1.5 system-ui,sans-serif;max-width:60em">',
        f'<div style="font-size:16px"><b>{_plain(question)}</b></div>',
        f"<div>answer: <b>{_plain(answer) or '(none)'}</b></div>" if steps else "",
        f'<div style="color:#99201f">{_plain(error)}</div>' if error else "",
        '<details><summary style="cursor:pointer">'
        f"{queries} queries, {len(passages)} passages read</summary><ol start='0' style='margin:4px 0'>",
        *(_step(step, passages) for step in steps),
        "</ol></details>",
        "<ol style='margin:8px 0'>",
        *(_passage(passages[id]) for id in best),
        "</ol></div>",
    ]
    return "".join(parts)


def _step(step: _Step, passages: Mapping[str, _Passage]) -> str:
    query = parse(step.query)
    score = f' <span style="color:#666">{step.total:.3f}</span>' if step.total is not None else ""
    chips = "".join(map(_chip, query.refinements))
    return f"<li>{_plain(query.question)}{chips}{score}{''.join(_changes(step, passages))}</li>"


def _chip(refinement: Refinement) -> str:
    colour = _COLOURS[refinement.op]
    style = (
        f"border:1px solid {colour};color:{colour};border-radius:9px;padding:0 6px;margin-left:4px;white-space:nowrap"
    )
    return f'<span style="{style}">{_plain(str(refinement))}</span>'


def _changes(step: _Step, passages: Mapping[str, _Passage]) -> Iterator[str]:
    if step.dead_end:
        yield '<div style="color:#666">found nothing</div>'
    for sign, ids, colour in (("↑", step.entered, "#19602f"), ("↓", step.left, "#99201f")):
        for id in ids:
            yield f'<div style="color:{colour}">{sign} {_plain(passages[id].title or id)}</div>'


def _passage(passage: _Passage) -> str:
    before, answer, after = passage.text.partition(" ".join(passage.answer.split())) if passage.answer else ("", "", "")
    marked = _plain(passage.text)
    if answer:
        mark = f'<span style="background:{_MARKS[passage.exact]};color:#1c1e22">{_plain(answer)}</span>'
        marked = f"{_plain(before)}{mark}{_plain(after)}"
    title = _plain(passage.title) or "(no title)"
    return f'<li><b>{title}</b> <span style="color:#666">PS {passage.score:.3f}</span><br>{marked}</li>'


def _plain(text: str) -> str:
    return escape("".join(c if c.isprintable() else " " for c in text))
