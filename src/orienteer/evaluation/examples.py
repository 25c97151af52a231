"""Example sessions in the layout of `tab:episode_example_*`, chosen by rule and not by hand.

The three of an agent: the session that gained most, the one that lost most, the one in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from orienteer.evaluation.depth import DEEPEST, Ranks
from orienteer.evaluation.markdown import code, number, plain, table
from orienteer.session import Record
from orienteer.session.record import RecordedPassage

SHOWN = 2  # passages a query; the last one shows all


def choose(rewards: Sequence[float]) -> dict[str, int]:
    """Rule → the place of its session, by reward; the first of equals. Sessions without answers (NaN) do not count."""
    judged = [i for i, reward in enumerate(rewards) if not np.isnan(reward)]
    if not judged:
        return {}
    ordered = sorted(judged, key=lambda i: rewards[i])
    largest = max(judged, key=lambda i: rewards[i])
    loss = "Largest loss" if rewards[ordered[0]] < 0 else "Smallest gain"
    return {"Largest gain": largest, loss: ordered[0], "Median": ordered[(len(ordered) - 1) // 2]}


def lay_out(record: Record, ranks: Ranks) -> str:
    """The session as a table: for each query the first passages that it brought in, at the end all five."""
    last = len(record.steps) - 1
    told = [place for place, step in enumerate(record.steps) if step.entered or place == last]
    rows = [row for place in told for row in _rows(record, place, ranks, SHOWN if place < last else None)]
    answers = ", ".join(map(plain, record.question.answers))
    left_out = len(record.steps) - len(told)
    note = f" Queries that brought in nothing are left out ({left_out})." if left_out else ""
    return f"Gold answers: {answers}.{note}\n\n" + table(["", "Query and search results", "Score"], rows, left=2)


def _rows(record: Record, place: int, ranks: Ranks, most: int | None) -> Iterator[list[str]]:
    step = record.steps[place]
    yield [f"**q{place}**", code(step.query), number(step.score.total if step.score else None, 3)]
    shown = step.best if most is None else [id for id in step.best if id in step.entered][:most]
    for id in shown:
        yield [f"d{step.best.index(id) + 1}", _passage(record.passages[id], ranks.get(id)), ""]
    if not shown:
        yield ["", "*no passage*", ""]


def _passage(passage: RecordedPassage, rank: int | None) -> str:
    depth = f"&gt; {DEEPEST}" if rank is None else str(rank)
    title = plain(passage.title or "(no title)")
    return f"**{title}** (BM25 rank: {depth})<br>… {_marked(passage)} …"


def _marked(passage: RecordedPassage) -> str:
    """The snippet with the reader's answer in bold, and whether it is right; instead of the paper's blue and red."""
    text, answer = passage.text or "", passage.answer or ""
    if not answer:
        return plain(text)
    # The snippet's blanks are folded, the answer's are the passage's own.
    before, found, after = text.partition(" ".join(answer.split()))
    mark = "✓" if passage.exact else "✗"
    if not found:
        return f"{plain(text)} [**{plain(answer)}** {mark}]"
    parts = (plain(before), f"**{plain(found)}** {mark}", plain(after))
    return " ".join(part for part in parts if part)
