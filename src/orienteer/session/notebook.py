"""A session as HTML, for a notebook: the queries with their operators, what each step changed, the best passages.

Every text is escaped, and all style is inline: the fragment stands anywhere, and retrieved text can drive nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from orienteer.query import Refinement, parse
from orienteer.reader.snippets import snippet

if TYPE_CHECKING:
    from orienteer.session.record import Record
    from orienteer.session.state import Session

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
    before, found, after = passage.text.partition(" ".join(passage.answer.split())) if passage.answer else ("", "", "")
    marked = _plain(passage.text)
    if found:
        mark = f'<span style="background:{_MARKS[passage.exact]};color:#1c1e22">{_plain(found)}</span>'
        marked = f"{_plain(before)}{mark}{_plain(after)}"
    title = _plain(passage.title) or "(no title)"
    return f'<li><b>{title}</b> <span style="color:#666">PS {passage.score:.3f}</span><br>{marked}</li>'


def _plain(text: str) -> str:
    return escape("".join(c if c.isprintable() else " " for c in text))
