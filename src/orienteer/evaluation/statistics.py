"""Statistics of an evaluation: intervals, paired tests, planned comparisons, answer overlap, headroom closed.

Bootstrap and permutation tests resample questions. A report tests every agent against every baseline, with Holm's
correction over all of them; `compare` corrects only for the few pairs that were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orienteer.data.passage import Question
from orienteer.dense import passages_of
from orienteer.evaluation.journal import EvaluationError
from orienteer.evaluation.measures import QUALITY
from orienteer.evaluation.ranking_measures import RANKING_MEASURES
from orienteer.evaluation.summaries import Summary, stored_rows
from orienteer.reader.answer_matching import answer_forms

GROUPS = ("answer in the training set", "answer not in it")


def overlapping(questions: Sequence[Question], training: Iterable[Question]) -> NDArray[np.bool_]:
    """True where some gold answer equals, once normalised, some answer of the training set."""
    known = {form for question in training for form in answer_forms(question.answers)}
    return np.array([any(form in known for form in answer_forms(q.answers)) for q in questions], bool)


Floats = NDArray[np.float64]

RESAMPLES = 2_000
PERMUTATIONS = 10_000
_EXACT_UP_TO = 12  # differing pairs; all 2^12 swaps are fewer than the random ones
_BLOCK = 1 << 22  # numbers drawn at once


def bootstrap(values: ArrayLike, *, seed: int, level: float = 0.95, resamples: int = RESAMPLES) -> Floats:
    """Percentile intervals [M, 2] of the means of columns [N, M]; the columns share their draws."""
    table = _columns(values)
    count = len(table)
    if count == 0:
        return np.full((table.shape[1], 2), np.nan)
    draw = np.random.default_rng(seed)
    means = []
    for rows in _blocks(resamples, count):
        times = draw.multinomial(count, np.full(count, 1 / count), size=rows)  # [rows, N]: how often each is drawn
        means.append(times @ table / count)
    tail = (1 - level) / 2
    # The last bits of a product depend on how the machine splits it; a figure must not.
    return np.round(np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0).T, 9)


def permutation_test(differences: ArrayLike, *, seed: int, permutations: int = PERMUTATIONS) -> Floats:
    """Two-sided p-values [M] of paired differences [N, M]: how often random signs give as large a mean.

    Exact where few pairs differ; otherwise (1 + as large) / (1 + drawn), so that p is never 0.
    """
    table = _columns(differences)
    exact = [np.count_nonzero(column) <= _EXACT_UP_TO for column in table.T]
    p = np.array([_exact(column) if small else np.nan for column, small in zip(table.T, exact, strict=True)])
    if not all(exact):
        p[~np.array(exact)] = _sampled(table[:, ~np.array(exact)], np.random.default_rng(seed), permutations)
    return p


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: step-down, never below an earlier one, at most 1."""
    count = len(p_values)
    adjusted, highest = [0.0] * count, 0.0
    for place, i in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (count - place) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _exact(column: Floats) -> float:
    """All swaps of the pairs that differ, tried."""
    differing = column[column != 0]
    codes = np.arange(2 ** len(differing))[:, None] >> np.arange(len(differing)) & 1
    return float(np.mean(_as_large((1 - 2 * codes) @ differing, differing.sum())))


def _sampled(table: Floats, draw: np.random.Generator, permutations: int) -> Floats:
    """Random swaps; a difference that is 0 stays 0 whatever its sign, so all columns share the signs."""
    observed = table.sum(axis=0)
    larger = np.ones(table.shape[1])
    for rows in _blocks(permutations, len(table)):
        signs = 1.0 - 2.0 * draw.integers(0, 2, size=(rows, len(table)), dtype=np.int8)
        larger += _as_large(signs @ table, observed).sum(axis=0)
    p: Floats = larger / (1 + permutations)
    return p


def _as_large(sums: Floats, observed: ArrayLike) -> NDArray[np.bool_]:
    # Sums of the same numbers in another order may differ in the last bits; those are ties.
    return np.abs(sums) >= np.abs(observed) * (1 - 1e-12) - 1e-12


def _columns(values: ArrayLike) -> Floats:
    table = np.asarray(values, np.float64)
    return table[:, None] if table.ndim == 1 else table


def _blocks(total: int, width: int) -> list[int]:
    """Row counts that add up to `total`, each block at most some tens of megabytes."""
    rows = max(1, _BLOCK // max(1, width))
    return [min(rows, total - start) for start in range(0, total, rows)]


BASELINE = "bm25+ps"
# Also as much plain reading as a session costs, and what an expert would try without learning.
BASELINES = re.compile(rf"{re.escape(BASELINE)}|bm25@\d+\+ps|prf-answer")
TESTED = ("NDCG@5", "Top-1", "Top-5", "EM-MR", "score")

ByAgent = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An agent less a baseline, over the same questions, in percent points; `p_holm` is p corrected for its table."""

    agent: str
    baseline: str
    measure: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        interval = f"[{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.agent} - {self.baseline}, {self.measure}: {self.difference:+.2f} {interval}, p {self.p_holm:.3f}"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the figures are worth.

    intervals    of each mean, 95 %
    overlap      group → (how many questions, means); empty without a training set
    ceiling      the Rocchio agent that the headroom is measured by; empty where there is none
    headroom     agent → measure → the share of it that is closed
    """

    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    comparisons: Sequence[Comparison]
    overlap: Mapping[str, tuple[int, ByAgent]]
    ceiling: str
    headroom: ByAgent

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def statistics(summaries: Sequence[Summary], *, seed: int, overlaps: NDArray[np.bool_] | None = None) -> Statistics:
    """All of it; `overlaps` says for each question whether the training set has its answer."""
    judged = ~np.isnan(summaries[0].column("score"))
    if not judged.any():
        return Statistics({}, (), {}, "", {})
    quality = tuple(m for m in summaries[0].quality if not np.isnan(summaries[0].column(m)[judged]).any())
    tables = {s.name: np.stack([100 * s.column(m)[judged] for m in quality], axis=1) for s in summaries}  # [N, M]
    names = [s.name for s in summaries]
    baselines = [name for name in names if BASELINES.fullmatch(name)] or names[:1]
    ceiling = ceiling_of(names)
    return Statistics(
        _intervals(tables, quality, seed),
        [each for baseline in baselines for each in _comparisons(tables, quality, baseline, seed)],
        {} if overlaps is None else _overlap(tables, quality, overlaps[judged]),
        ceiling,
        headroom({s.name: s.means() for s in summaries}, ceiling),
    )


def ceiling_of(names: Sequence[str]) -> str:
    """The Rocchio agent that stands for the headroom: G4 where there is a choice; empty where there is none."""
    rocchio = [name for name in names if name.startswith("rocchio")]
    preferred = [name for name in ("rocchio-G4", "rocchio") if name in rocchio]
    return (preferred + rocchio + [""])[0]


def headroom(metrics: ByAgent, ceiling: str) -> dict[str, dict[str, float]]:
    """(x - bm25+ps) / (rocchio - bm25+ps) by agent and measure; absent where there is no room above the baseline."""
    if BASELINE not in metrics or ceiling not in metrics:
        return {}
    floor, top = metrics[BASELINE], metrics[ceiling]
    names = (*RANKING_MEASURES, *QUALITY)
    room = {m: top[m] - floor[m] for m in names if m != "reward" and m in top and m in floor}
    return {
        agent: {m: (values[m] - floor[m]) / room[m] for m in room if room[m] > 1e-9 and m in values}
        for agent, values in metrics.items()
        if agent not in (BASELINE, ceiling)
    }


def _intervals(
    tables: Mapping[str, Floats], measures: Sequence[str], seed: int
) -> dict[str, dict[str, tuple[float, float]]]:
    together = bootstrap(np.concatenate(list(tables.values()), axis=1), seed=seed).tolist()
    found = iter(together)
    return {agent: {measure: _pair(next(found)) for measure in measures} for agent in tables}


def paired(
    tables: Mapping[str, Floats], pairs: Sequence[tuple[str, str]], measures: Sequence[str], seed: int
) -> list[Comparison]:
    """Agents less baselines over columns [N, measures]; Holm's correction is over all of these together."""
    if not pairs:
        return []
    differences = np.concatenate([tables[agent] - tables[baseline] for agent, baseline in pairs], axis=1)
    bounds = bootstrap(differences, seed=seed)
    p_values = permutation_test(differences, seed=seed).tolist()
    rows = [(*pair, measure) for pair in pairs for measure in measures]
    return [
        Comparison(*row, float(mean), float(low), float(high), p, corrected)
        for row, mean, (low, high), p, corrected in zip(
            rows, differences.mean(axis=0), bounds, p_values, holm(p_values), strict=True
        )
    ]


def _comparisons(
    tables: Mapping[str, Floats], measures: Sequence[str], baseline: str, seed: int
) -> list[Comparison]:  # fmt: skip
    """Every other agent against one baseline."""
    tested = [measure for measure in (*RANKING_MEASURES, *TESTED) if measure in measures]
    columns = {agent: table[:, [measures.index(each) for each in tested]] for agent, table in tables.items()}
    return paired(columns, [(agent, baseline) for agent in tables if agent != baseline], tested, seed)


def _overlap(
    tables: Mapping[str, Floats], measures: Sequence[str], overlaps: NDArray[np.bool_]
) -> dict[str, tuple[int, dict[str, dict[str, float]]]]:
    found = {}
    for group, rows in zip(GROUPS, (overlaps, ~overlaps), strict=True):
        means = {
            agent: dict(zip(measures, table[rows].mean(axis=0).tolist(), strict=True))
            for agent, table in tables.items()
            if rows.any()
        }
        found[group] = (int(rows.sum()), means)
    return found


def _pair(bounds: Sequence[float]) -> tuple[float, float]:
    return bounds[0], bounds[1]


def compare(
    folder: Path, groups: Sequence[Sequence[str]], measures: Sequence[str] | None = None, *, seed: int = 0
) -> list[Comparison]:
    """The first agent of each group minus each of its others, over the questions of a finished evaluation.

    `measures` None: those that apply to the questions.
    """
    if measures is None:
        measures = _applying(folder) or TESTED
    check_measures(measures)
    for group in groups:
        if len(group) < 2:
            raise EvaluationError(f"{','.join(group)!r}: one agent; expected two or more, with commas between")
    if not groups:
        raise EvaluationError("nothing to compare; name two agents or more")
    pairs = dict.fromkeys((group[0], other) for group in groups for other in group[1:])
    values = read_values(folder, list(dict.fromkeys(agent for group in groups for agent in group)), measures)
    tables = {agent: np.stack(list(columns.values()), axis=1) for agent, columns in values.items()}  # [N, measures]
    judged = ~np.isnan(np.concatenate(list(tables.values()), axis=1)).any(axis=1)
    if not judged.any():
        raise EvaluationError(
            f"{folder}: no question to which all of {', '.join(measures)} apply; there is nothing to compare"
        )
    return paired({agent: 100 * table[judged] for agent, table in tables.items()}, list(pairs), measures, seed)


def _applying(folder: Path) -> list[str]:
    """The measures that reports test and that have a value for some question."""
    first = next(iter(stored_rows(folder).values()), None)
    columns = first["values"] | first.get("ranking", {}) if first else {}
    return [m for m in (*RANKING_MEASURES, *TESTED) if any(v is not None for v in columns.get(m, ()))]


def check_measures(measures: Sequence[str]) -> None:
    """Differences are of measures of quality."""
    if not measures:
        raise EvaluationError(f"nothing to compare: no measure; expected some of {', '.join(QUALITY)}")
    for measure in measures:
        if measure not in QUALITY and measure not in RANKING_MEASURES:
            known = ", ".join((*QUALITY, *RANKING_MEASURES))
            raise EvaluationError(f"{measure!r} is no measure of quality; expected some of {known}")


def read_values(folder: Path, agents: Sequence[str], measures: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """Agent → measure → one value a question [N], from the summaries in `folder`; NaN where it does not apply."""
    found = stored_rows(folder)
    if missing := sorted(set(agents) - set(found)):
        here = f"there are those of {', '.join(sorted(found))}" if found else "there is none; run `orienteer evaluate`"
        raise EvaluationError(f"{folder}: no summary of {', '.join(missing)}; {here}")
    # Vectors beside BM25 are the agent's: the passages are those of the index all the same.
    of_agents = {agent: found[agent] | {"index": passages_of(found[agent]["index"])} for agent in agents}
    for what, several in (("questions", "sets of questions"), ("index", "indexes"), ("reader", "readers")):
        if len({row[what] for row in of_agents.values()}) > 1:
            raise EvaluationError(f"{folder}: its agents were judged with several {several}; evaluate them together")
    known = {agent: found[agent]["values"] | found[agent].get("ranking", {}) for agent in agents}
    for agent, columns in known.items():
        if missing := sorted(set(measures) - set(columns)):
            raise EvaluationError(f"{folder}: no {', '.join(missing)} of {agent}; its questions have no judgements")
    return {agent: {name: np.array(known[agent][name], np.float64) for name in measures} for agent in agents}
