"""Markdown, and the paper's tables in its layout with its numbers beside ours.

Ours come as `metrics.json` holds them, by set of questions: {"dev": {agent: {measure: value}}, "test": …}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from orienteer.evaluation import paper

NONE = "–"
# What makes marks, tags, tables and formulas inside a line; and what makes a bare address a link.
_MEANINGFUL = re.compile(r"[\\`*_\[\]|~$<>&]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", ":": "&#58;", ".": "&#46;"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table with its first `left` columns flush left, the others flush right."""
    rule = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows)) + "\n"


def plain(text: str) -> str:
    """Retrieved text as text: on one line, without control characters, nothing in it a mark, a tag or a link.

    It must not stand at the beginning of a line, where a number or a dash would have a meaning too.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _MEANINGFUL.sub(lambda match: _ENTITIES.get(match[0]) or f"\\{match[0]}", line)


def code(text: str) -> str:
    """Text in a table's cell as it is written: an agent's name, a query."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def ranked(values: Sequence[float | None], digits: int = 2) -> list[str]:
    """Numbers with the largest in bold and the second-largest underlined, as in `tab:PRF-results`."""
    shown = [number(value, digits) for value in values]
    largest = sorted({text for text, value in zip(shown, values, strict=True) if value is not None}, key=float)[::-1]
    marks = dict(zip(largest[:2], ("**{}**", "<ins>{}</ins>"), strict=False))
    return [marks.get(text, "{}").format(text) for text in shown]


Metrics = Mapping[str, Mapping[str, float]]
Sets = Mapping[str, Metrics]

# Beside the paper's columns: re-ranking as many passages as a session reads, the best unlearned operator, what ships.
BESIDE = {
    "BM25@100+PS": ("bm25@100+ps",), "PRF-IDF −t": ("prf-idf-t",), "pointer": ("pointer",), "muzero": ("muzero",),
    "copynet-G1": ("copynet-G1",), "ensemble": ("ensemble",),
}  # fmt: skip
_FOLDER = re.compile(r"=[^|()\[\]]*")


def value(metrics: Metrics, agents: Iterable[str], measure: str) -> float | None:
    """The measure of the first of these agents that was evaluated, from whichever folder its weights were."""
    names = {_FOLDER.sub("", name): name for name in reversed(list(metrics))} | {name: name for name in metrics}
    return next((metrics[names[agent]].get(measure) for agent in agents if agent in names), None)


def results(sets: Sets) -> str:
    """`tab:results`: the paper's test figures, ours of every set; its EM is that of the answer generator."""
    rows = []
    for measure, theirs in paper.RESULTS["test"].items():
        rows.append(_row(measure, "paper, test", theirs, beside=_beside_paper(measure, "test")))
        for name, metrics in sets.items():
            ours = "EM-T5" if measure == "EM" else measure
            rows.append(_row("", f"ours, {name}", _columns(metrics, ours), beside=_beside(metrics, ours)))
    return table(["Metric", "", *paper.COLUMNS, *BESIDE], rows, left=2)


def results_full(sets: Sets) -> str:
    """`tab:results-full`: dev and test, both kinds of exact match."""
    rows = []
    for measure in paper.RESULTS_FULL["test"]:
        first = measure
        for data, theirs in paper.RESULTS_FULL.items():
            rows.append(_row(first, f"paper, {data}", theirs[measure], beside=_beside_paper(measure, data)))
            first = ""
        for name, metrics in sets.items():
            rows.append(_row("", f"ours, {name}", _columns(metrics, measure), beside=_beside(metrics, measure)))
    return table(["Metric", "Data", *paper.COLUMNS, *BESIDE], rows, left=2)


def results_t5(sets: Sets) -> str:
    """`tab:results-t5`: the agents trained on each grammar's sessions; ours are T5, copynet and pointer."""
    rows = []
    for grammar, theirs in paper.RESULTS_T5.items():
        rows.append([f"**{grammar}**", "paper, T5, dev", *map(number, theirs)])
        for name, metrics in sets.items():
            for family, shown in (("t5", "T5"), ("copynet", "copynet"), ("pointer", "pointer")):
                ours = [value(metrics, (f"{family}-{grammar}",), measure) for measure in paper.T5_MEASURES]
                if family == "t5" or any(each is not None for each in ours):
                    rows.append(["", f"ours, {shown}, {name}", *map(number, ours)])
    return table(["Version", "", *paper.T5_MEASURES[:-1], "Reward (S)"], rows, left=2)


def prf_results(sets: Sets) -> str:
    """`tab:PRF-results`: ten operators, two ways to choose the term."""
    rows = []
    for measure in ("NDCG@5", "Top-1", "Top-5"):
        first = f"**{measure}**"
        for (name, data, algorithm), theirs in paper.PRF.items():
            if name == measure:
                rows.append([first, f"paper, {data}", algorithm.upper(), *ranked(theirs)])
                first = ""
        for data, metrics in sets.items():
            for algorithm in ("idf", "rm3"):
                agents = [f"prf-{algorithm}{operator}" for operator in paper.PRF_OPERATORS]
                ours = [value(metrics, (agent,), measure) for agent in agents]
                rows.append(["", f"ours, {data}", algorithm.upper(), *ranked(ours)])
    head = [code(operator.removeprefix("-") if operator == "-or" else operator) for operator in paper.PRF_OPERATORS]
    return table(["Metric", "Data", "Alg", *head], rows, left=3)


def expansion_steps(steps: Mapping[str, Mapping[str, tuple[int, int]]]) -> str:
    """`tab:rocchio_expansion_steps`: all steps of the Rocchio sessions; by set, grammar → (steps, sessions)."""
    theirs = [f"{count:,}" for count in paper.EXPANSION_STEPS]
    each = [number(count / paper.EXPANSION_SESSIONS) for count in paper.EXPANSION_STEPS]
    rows = [
        [f"paper, NQ Train, {paper.EXPANSION_SESSIONS:,} sessions", *theirs],
        ["paper, steps a session", *each],
    ]
    for name, ours in steps.items():
        counts = [ours.get(grammar) for grammar in paper.GRAMMARS]
        sessions = max((pair[1] for pair in counts if pair), default=0)
        rows.append([f"ours, {name}, {sessions:,} sessions", *(f"{pair[0]:,}" if pair else "–" for pair in counts)])
        means = [number(pair[0] / pair[1]) if pair and pair[1] else "–" for pair in counts]
        rows.append([f"ours, {name}, steps a session", *means])
    return table(["", *paper.GRAMMARS], rows)


def _row(measure: str, data: str, values: Sequence[float | None], beside: Sequence[float | None]) -> list[str]:
    return [f"**{measure}**" if measure else "", data, *map(number, values), *map(number, beside)]


def _columns(metrics: Metrics, measure: str) -> list[float | None]:
    return [value(metrics, agents, measure) for agents in paper.COLUMNS.values()]


def _beside(metrics: Metrics, measure: str) -> list[float | None]:
    return [value(metrics, agents, measure) for agents in BESIDE.values()]


def _beside_paper(measure: str, data: str) -> list[float | None]:
    """The paper has one of them, with its own: idf with the `-t` operator."""
    row = paper.PRF.get((measure, data, "idf"))
    theirs = {"PRF-IDF −t": row[paper.PRF_OPERATORS.index("-t")]} if row else {}
    return [theirs.get(name) for name in BESIDE]
