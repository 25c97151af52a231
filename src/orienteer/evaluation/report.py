"""The report: the paper's tables with its numbers beside ours, significance, figures, example sessions.

Examples are in the layout of `tab:episode_example_*` and chosen by rule: of each agent the session that gained most,
the one that lost most, and the median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.agents.registry import sees_answers
from orienteer.evaluation import paper, tables
from orienteer.evaluation.answer_em import ABOUT, EM_T5
from orienteer.evaluation.figures import FIGURES
from orienteer.evaluation.measures import ABOUT_SECONDS, COSTS, MEASURES, QUALITY, SECONDS
from orienteer.evaluation.ranking_measures import RANKING_MEASURES
from orienteer.evaluation.statistics import BASELINE, Comparison, Statistics
from orienteer.evaluation.summaries import DEEPEST, Ranks, Summary
from orienteer.evaluation.tables import NONE, code, number, plain, table
from orienteer.session import Record
from orienteer.session.record import RecordedPassage

SHOWN = 2  # passages a query; the last one shows all


def choose_examples(rewards: Sequence[float]) -> dict[str, int]:
    """Rule → the place of its session, by reward; the first of equals. Sessions without answers (NaN) do not count."""
    judged = [i for i, reward in enumerate(rewards) if not np.isnan(reward)]
    if not judged:
        return {}
    ordered = sorted(judged, key=lambda i: rewards[i])
    largest = max(judged, key=lambda i: rewards[i])
    loss = "Largest loss" if rewards[ordered[0]] < 0 else "Smallest gain"
    return {"Largest gain": largest, loss: ordered[0], "Median": ordered[(len(ordered) - 1) // 2]}


def example_table(record: Record, ranks: Ranks) -> str:
    """The session as a table: for each query the first passages that it brought in, at the end all five."""
    last = len(record.steps) - 1
    shown = [place for place, step in enumerate(record.steps) if step.entered or place == last]
    rows = [row for place in shown for row in _session_rows(record, place, ranks, SHOWN if place < last else None)]
    answers = ", ".join(map(plain, record.question.answers))
    left_out = len(record.steps) - len(shown)
    note = f" Queries that brought in nothing are left out ({left_out})." if left_out else ""
    return f"Gold answers: {answers}.{note}\n\n" + table(["", "Query and search results", "Score"], rows, left=2)


def _session_rows(record: Record, place: int, ranks: Ranks, most: int | None) -> Iterator[list[str]]:
    step = record.steps[place]
    yield [f"**q{place}**", code(step.query), number(step.score.total if step.score else None, 3)]
    shown = step.best if most is None else [id for id in step.best if id in step.entered][:most]
    for id in shown:
        yield [f"d{step.best.index(id) + 1}", _session_passage(record.passages[id], ranks.get(id)), ""]
    if not shown:
        yield ["", "*no passage*", ""]


def _session_passage(passage: RecordedPassage, rank: int | None) -> str:
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


SURE = 0.05


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a report tells; `figures` and `examples` are files by name, relative to the report.

    `examples` is None where the report shall quote nothing.
    """

    data: str
    command: str
    run: Mapping[str, Any]
    metrics: tables.Metrics
    summaries: Sequence[Summary]
    statistics: Statistics
    figure_data: Mapping[str, Any]
    figures: Mapping[str, str]
    examples: Mapping[str, str] | None
    best_examples: str


def report(findings: ReportData) -> str:
    """The whole of `report.md`."""
    return "\n".join(part for section in SECTIONS for part in (*section(findings), "") if part is not None)


def combined(metrics: tables.Sets, figure_data: Mapping[str, Mapping[str, Any]]) -> str:
    """The paper's tables with several sets of questions in each."""
    return "\n".join(["# The paper's tables, its figures and ours", "", *_paper_tables(metrics, figure_data)])


def expansion_counts(figure_data: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Grammar → (refinements, sessions) of the Rocchio agents; `rocchio` is G4."""
    counts = {}
    for agent, data in figure_data["agents"].items():
        if agent == "rocchio" or agent.removeprefix("rocchio-") in paper.GRAMMARS:
            grammar = agent.removeprefix("rocchio-") if agent != "rocchio" else "G4"
            counts[grammar] = (sum(n * count for n, count in enumerate(data["lengths"])), data["sessions"])
    return counts


def _head(findings: ReportData) -> list[str]:
    run = findings.run
    rows = [[code(name), code(str(value))] for name, value in run["settings"].items()]
    return [
        f"# Evaluation on {plain(findings.data)}",
        "",
        f"{run['n']:,} questions, {run['judged']:,} of them with answers or judgements. "
        f"Index {code(run['index_fingerprint'] or 'without a fingerprint')}, "
        f"reader {code(run['reader_fingerprint'] or 'without a fingerprint')}, Orienteer {run['orienteer']}.",
        *(["", f"Command: {code(findings.command)}"] if findings.command else []),
        "",
        "<details><summary>Settings, where an agent's name does not say otherwise</summary>",
        "",
        table(["setting", "value"], rows, left=2),
        "</details>",
    ]


def _all_agents(findings: ReportData) -> list[str]:
    generated = [EM_T5] if any(EM_T5 in values for values in findings.metrics.values()) else []
    quality = _quality(findings)
    rows = []
    for agent, values in findings.metrics.items():
        bounds = findings.statistics.intervals.get(agent, {})
        cells = [_with_interval(values.get(name), bounds.get(name)) for name in quality]
        written = [number(values.get(EM_T5))] if generated else []
        shown = code(agent) + (" (sees the answers)" if sees_answers(agent) else "")
        costs = [*(number(values.get(name), 1) for name in COSTS), number(values.get(SECONDS))]
        rows.append([shown, *cells, *written, *costs])
    meanings = [f"- **{each.name}**: {each.about}" + _same_as(each.ir_measures) for each in MEASURES.values()]
    if judged := [name for name in quality if name in RANKING_MEASURES]:
        about = f"by ir-measures; passages read, in the agent's order, then the rest of BM25's first {DEEPEST:,}"
        meanings.insert(0, f"- **{', '.join(judged)}**: {about}")
    return [
        "## All agents",
        "",
        f"Means over questions in percent, with 95 % bootstrap intervals; from {COSTS[0]} on plain means. "
        "Seconds alone differ from run to run.",
        "",
        table(["agent", *quality, *generated, *COSTS, SECONDS], rows),
        *meanings,
        f"- **{SECONDS}**: {ABOUT_SECONDS}",
        *(f"- **{name}**: {ABOUT}" for name in generated),
    ]


def _tables(findings: ReportData) -> list[str]:
    if any(each.ranking for each in findings.summaries):
        return []  # the paper has no judged set
    sets, data = {findings.data: findings.metrics}, {findings.data: findings.figure_data}
    return ["## The paper's tables", "", *_paper_tables(sets, data)]


def _paper_tables(sets: tables.Sets, figure_data: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        "Its corpus, questions and models are others than ours: compare within a row, not across. A dash is a figure "
        "that does not exist. The two columns at the right are not in the paper's table; its figures there are those "
        "of its table of pseudo-relevance feedback.",
        "",
        "### `tab:results`",
        "",
        tables.results(sets),
        "EM is the answer generator's (EM-T5); the reader's own is EM-MR, below.",
        "",
        "### `tab:results-t5`",
        "",
        tables.results_t5(sets),
        "### `tab:results-full`",
        "",
        tables.results_full(sets),
        "### `tab:PRF-results`",
        "",
        tables.prf_results(sets),
        "The largest of a row is bold, the second underlined.",
        "",
        "### `tab:rocchio_expansion_steps`",
        "",
        tables.expansion_steps({name: expansion_counts(each) for name, each in figure_data.items()}),
    ]


def _differences(findings: ReportData) -> list[str]:
    lines = [
        "## What the differences are worth",
        "",
        "Each agent less a baseline on the same questions, in percent points, with the 95 % bootstrap interval and the "
        "p-value of a paired permutation test after Holm's correction over the whole table. "
        f"Bold where it is below {SURE}.",
        "",
    ]
    comparisons = findings.statistics.comparisons
    for baseline in dict.fromkeys(each.baseline for each in comparisons):
        found = {(each.agent, each.measure): each for each in comparisons if each.baseline == baseline}
        rows = []
        tested = list(dict.fromkeys(measure for _, measure in found))
        for agent in dict.fromkeys(agent for agent, _ in found):
            cells = [difference(found[agent, measure]) for measure in tested]
            shown = code(agent) + (" (sees the answers)" if sees_answers(agent) else "")
            rows.append([shown, *cells])
        lines += [f"### Against {code(baseline)}", "", table(["agent", *tested], rows)]
    return lines if comparisons else [*lines, "There is nothing to compare.", ""]


def _overlap(findings: ReportData) -> list[str]:
    lines = ["## By answer overlap with the training set", ""]
    groups = findings.statistics.overlap
    if not groups:
        return [*lines, "No training set was named.", ""]
    rows, quality = [], _quality(findings)
    for agent in findings.metrics:
        for group, (count, means) in groups.items():
            values = means.get(agent, {})
            rows.append([code(agent), group, f"{count:,}", *(number(values.get(name)) for name in quality)])
    return [*lines, table(["agent", "questions whose", "n", *quality], rows, left=2)]


def _headroom(findings: ReportData) -> list[str]:
    lines = [
        "## Headroom closed",
        "",
        f"(x − {code(BASELINE)}) / (Rocchio − {code(BASELINE)}): 0 is re-ranking, 1 a search that knows the answers.",
        "",
    ]
    found = findings.statistics.headroom
    if not found:
        return [*lines, f"It needs {code(BASELINE)} and an agent named {code('rocchio…')} in the same evaluation.", ""]
    names = [name for name in _quality(findings) if name != "reward"]
    rows = [[code(agent), *(number(values.get(name)) for name in names)] for agent, values in found.items()]
    return [*lines, f"The ceiling is {code(findings.statistics.ceiling)}.", "", table(["agent", *names], rows)]


def _endings(findings: ReportData) -> list[str]:
    kinds = list(dict.fromkeys(kind for each in findings.summaries for kind in sorted(each.endings)))
    rows = []
    for each in findings.summaries:
        data = findings.figure_data["agents"].get(each.name)
        length = f"{data['length_mean']:.2f} ± {data['length_deviation']:.2f}" if data else NONE
        fallbacks = ", ".join(f"{kind} {count:,}" for kind, count in sorted(each.fallbacks.items())) or NONE
        ends = (f"{each.endings[kind]:,}" for kind in kinds)
        rows.append([code(each.name), length, f"{each.dead_ends:,}", fallbacks, *ends])
    mean, deviation = paper.G4_LENGTH
    return [
        "## How sessions went",
        "",
        f"Refinements a session (mean ± standard deviation; the paper's Rocchio-G4: {mean} ± {deviation}), queries "
        "that found nothing, fallbacks, and how sessions ended. Fallbacks are decisions that an agent made in another "
        "way than its own: *blind*, without lookahead since the engine refused the refinements; *held*, again and held "
        "to the grammar since what it wrote was no legal action.",
        "",
        table(["agent", "refinements", "dead ends", "fallbacks", *kinds], rows),
    ]


def _figures(findings: ReportData) -> list[str]:
    if not findings.figures:
        return ["## Figures", "", "None was drawn; `figures.json` has the numbers.", ""]
    captions = {name: caption for name, (caption, _) in FIGURES.items()}
    captions["reward-landscape"] = "Measures over λ1 and λ2 (`fig:reward_mixing_landscapes`)"
    parts = ["## Figures", "", "Of the agents with the best score; `figures.json` has the numbers of all.", ""]
    for name, file in findings.figures.items():
        parts += [f"### {captions[name]}", "", f"![{name}]({file})", ""]
    return parts


def _examples(findings: ReportData) -> list[str]:
    if findings.examples is None:
        return []
    lines = [
        "## Example sessions",
        "",
        "In the layout of `tab:episode_example_*`, chosen by rule: the largest gain, the largest loss, the median. The "
        "reader's answer is bold, ✓ where it is right and ✗ where it is wrong; the BM25 rank is the one under q0.",
        "",
    ]
    if not findings.examples:
        return [*lines, "No agent whose sessions are here refined a question with answers.", ""]
    links = [f"- [{code(agent)}]({file})" for agent, file in findings.examples.items()]
    return [*lines, findings.best_examples, "By agent:", "", *links, ""]


def _quality(findings: ReportData) -> tuple[str, ...]:
    """The measures of quality that apply; all where none does."""
    return findings.summaries[0].quality or QUALITY


SECTIONS: tuple[Callable[[ReportData], list[str]], ...] = (
    _head, _all_agents, _tables, _differences, _overlap, _headroom, _endings, _figures, _examples,
)  # fmt: skip


def link(file: Path, base: Path) -> str:
    """A file's address in the report."""
    from urllib.parse import quote

    return quote(file.relative_to(base).as_posix())


def _with_interval(value: float | None, bounds: tuple[float, float] | None) -> str:
    return number(value) if value is None or bounds is None else f"{value:.2f} [{bounds[0]:.1f}, {bounds[1]:.1f}]"


def _same_as(name: str) -> str:
    return f" (ir-measures: `{name}`)" if name else ""


def difference(found: Comparison) -> str:
    """With its interval and corrected p, bold where that is small."""
    p = "< 0.001" if found.p_holm < 0.001 else f"{found.p_holm:.3f}"
    text = f"{found.difference:+.2f} [{found.low:+.2f}, {found.high:+.2f}] p {p}"
    return f"**{text}**" if found.p_holm < SURE else text
