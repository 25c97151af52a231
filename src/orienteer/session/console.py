"""A recorded session for the terminal: each query with its operators coloured, what it changed, the best passages.

As in the paper's examples (`tab:episode_example_bake`), an answer is blue where it is right and red where it is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

from orienteer.query import parse
from orienteer.session.actions import Undo
from orienteer.session.environment import Seconds
from orienteer.session.record import Record, RecordedPassage, RecordedStep

_STYLES = {"or": "green", "+": "bold green", "-": "bold red", "^": "bold yellow"}


def lay_out(record: Record, *, every_step: bool = False, seconds: Seconds | None = None) -> Iterator[Text]:
    """The session, line by line; with `every_step` also the best passages after each step that changed them."""
    for number, step in enumerate(record.steps):
        yield _headline(number, step)
        if not step.hits:
            yield Text("    nothing found" + ("; taken back" if number and record.ended != "dead end" else ""), "dim")
        elif step.entered or step.left:
            yield _changes(record, step)
        if every_step and step.entered:
            yield from _passages(record, step)
    if record.steps and not every_step:
        yield Text()
        yield from _passages(record, record.steps[-1])
    yield Text()
    yield _ending(record)
    yield _cost(record, seconds)


def _headline(number: int, step: RecordedStep) -> Text:
    line = Text().append(f"q{number} ", "bold")
    query = parse(step.query)
    line.append(_plain(query.question))
    for refinement in query.refinements:
        newest = refinement == step.action
        line.append(" ").append(_plain(str(refinement)), _STYLES[refinement.op] + ("" if newest else " not bold dim"))
    if isinstance(step.action, Undo):
        line.append("  (taken back)", "dim")
    if step.score is not None:
        line.append(f"  {step.score.total:.3f}", "cyan")
    return line


def _changes(record: Record, step: RecordedStep) -> Text:
    line = Text("    ")
    for sign, ids, style in (("+", step.entered, "green"), ("-", step.left, "red")):
        for id in ids:
            line.append(f"{sign} {_plain(record.passages[id].title or id)}  ", style)
    return line


def _passages(record: Record, step: RecordedStep) -> Iterator[Text]:
    for rank, id in enumerate(step.best, 1):
        passage = record.passages[id]
        line = Text().append(f"  {rank}. ", "bold")
        line.append(_plain(passage.title or "(no title)"), "bold")
        line.append(f"  PS {passage.score:.3f}  {_plain(id)}", "dim")
        yield line
        yield _marked(passage)


def _marked(passage: RecordedPassage) -> Text:
    """The snippet with the answer in its colour: blue right, red wrong, yellow where nobody knows."""
    text, answer = _plain(passage.text or ""), _plain(passage.answer or "")
    line = Text("     ")
    style = "bold yellow" if passage.exact is None else "bold blue" if passage.exact else "bold red"
    # The answer as whole words where it stands so: "210" rather than the end of "1210".
    place = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) or re.search(re.escape(answer), text)
    start, end = place.span() if place else (0, 0)
    return line.append(text[:start]).append(text[start:end], style).append(text[end:])


def _ending(record: Record) -> Text:
    if not record.steps or not record.best:
        return Text(f"No passage found. {_plain(record.error)}".strip(), "bold red")
    line = Text().append("Answer: ", "bold").append(_plain(record.answer) or "(none)", "bold yellow")
    if record.question.answers:
        line.append(f"  expected: {_plain(' | '.join(record.question.answers))}", "dim")
    if record.error:
        line.append(f"\n{_plain(record.error)}", "red")
    return line


def _cost(record: Record, seconds: Seconds | None) -> Text:
    line = Text(f"{record.queries} queries, {len(record.passages)} passages read", "dim")
    if seconds is not None:
        line.append(
            f", {seconds.total:.1f} s (engine {seconds.engine:.1f}, reader {seconds.reader:.1f}, "
            f"agent {seconds.agent:.1f})"
        )
    return line


def _plain(text: str) -> str:
    """White space folded, control characters gone: retrieved text must not drive the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
