"""Example sessions in the layout of `tab:episode_example_*`, chosen by rule and not by hand.

The three of an agent: the session that gained most, the one that lost most, the one in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from orienteer.evaluation.depth import DEEPEST, Ranks
from orienteer.evaluation.markdown import code, number, plain, table
from orienteer.session import Record
from orienteer.session.record import RecordedPassage, RecordedStep

SHOWN = 2  # passages a step; the last step shows all


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
    """The session as a table; steps that changed nothing among the passages shown are left out."""
    rows = list(_rows(record, ranks))
    answers = ", ".join(map(plain, record.question.answers))
    left_out = len(record.steps) - sum(row[0].startswith("**q") for row in rows)
    note = f" {left_out} steps that did not change the first passages are left out." if left_out else ""
    return f"Gold answers: {answers}.{note}\n\n" + table(["", "Query and search results", "Score"], rows, left=2)


def _rows(record: Record, ranks: Ranks) -> Iterator[list[str]]:
    before: tuple[str, ...] | None = None
    for number_, step in enumerate(record.steps):
        last = number_ == len(record.steps) - 1
        if last or step.best[:SHOWN] != before:
            yield [f"**q{number_}**", code(step.query), _score(step)]
            if not step.best:
                yield ["", "*no passage*", ""]
            for place, id in enumerate(step.best if last else step.best[:SHOWN], 1):
                yield [f"d{place}", _passage(record.passages[id], ranks.get(id)), ""]
        before = step.best[:SHOWN]


def _score(step: RecordedStep) -> str:
    return number(step.score.total if step.score else None, 3)


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
