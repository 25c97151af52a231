"""Checks that tables in README and docs show the numbers of the files under results/: `make results-check`.

A table is checked where a comment before it names its file:

    <!-- checked: results/agents/test -->                       columns are measures of this folder's summaries
    <!-- checked: results/agents -->                            a column head names the set: `dev` NDCG@5
    <!-- checked: results/agents NDCG@5 / Top-5 / read -->      a cell holds several measures, with slashes between
    <!-- checked: results/workshop/thumbs-scifact.json -->      a row's name is a path in the file: `both.ratio`

A row is an agent's: the first name in backticks. Every number must equal the file's, rounded as the table rounds it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.evaluation.measures import MEASURES
from orienteer.evaluation.summaries import stored_rows

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "README.md", "docs/results.md", "results/agents/first-reader/README.md",
    "results/ablation.md", "docs/vectors.md", "docs/workshop.md", "docs/paper.md",
)  # fmt: skip
NAMES = {
    "read": "passages_read",
    "right passage among those read": "found",
    "refinements scored": "refinements_scored",
    "passages scored": "passages_scored",
}

# Agents that were recorded under another name: results keep theirs, documents have today's.
RECORDED_AS = {"copynet": "t5"}

_MARK = re.compile(r"<!-- checked: (\S+)(?: (.+?))? -->")
_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SIGNED = re.compile(r"[+-]?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a document, and where it should come from."""

    place: str
    shown: str
    folder: Path
    agent: str
    measure: str


def figures(document: Path, root: Path = ROOT) -> Iterator[Figure]:
    """Every number of the checked tables of a document."""
    lines = document.read_text().splitlines()
    for number, line in enumerate(lines):
        if mark := _MARK.fullmatch(line.strip()):
            table = list(_rows(lines[number + 1 :]))
            yield from _figures(f"{document.name}:{number + 1}", root / mark[1], mark[2], table)


def problems(document: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with the document's tables, in words; none where all is well."""
    wrong, count = [], 0
    for each in figures(document, root):
        count += 1
        known = _metrics(each.folder)
        expected = known.get(each.agent, known.get(_recorded(each.agent), {})).get(each.measure)
        if expected is None:
            wrong.append(f"{each.place}: {each.folder.name} has no {each.measure} of {each.agent}")
        elif not _equal(each.shown, expected):
            where = f"{each.agent}, {each.measure} in {each.folder.name}"
            wrong.append(f"{each.place}: {where} is {each.shown}, the file has {expected:.3f}")
    return wrong or ([] if count else [f"{document.name}: no table is checked"])


def _recorded(agent: str) -> str:
    """The name under which earlier versions recorded an agent."""
    family = re.split(r"[-+\[]", agent)[0]
    return RECORDED_AS.get(family, family) + agent[len(family) :]


def _rows(lines: list[str]) -> Iterator[list[str]]:
    started = False
    for line in lines:
        if line.startswith("|"):
            started = True
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]
        elif started or line.strip():
            return


def _figures(place: str, folder: Path, measures: str | None, table: list[list[str]]) -> Iterator[Figure]:
    head, _, *rows = table
    if folder.suffix == ".json":
        yield from _json_figures(place, folder, rows)
        return
    columns, at = [], folder
    for cell in head[1:]:
        if named := _CODE.search(cell):
            at = folder / named[1]
        columns.append((at, measures or _CODE.sub("", cell).strip()))
    for row in rows:
        agent = _CODE.search(row[0])
        if agent is None:
            continue
        for cell, (where, label) in zip(row[1:], columns, strict=True):
            shown = [each.strip(" *") for each in cell.split("/")]
            for value, measure in zip(shown, label.split("/"), strict=True):
                if _NUMBER.fullmatch(value):
                    yield Figure(place, value, where, agent[1], NAMES.get(measure.strip(), measure.strip()))


def _json_figures(place: str, file: Path, rows: list[list[str]]) -> Iterator[Figure]:
    """The numbers of a row, in their order, are the value that the path names: a number, or a list of them."""
    for row in rows:
        if path := _CODE.search(row[0]):
            for number, shown in enumerate(_SIGNED.findall(" ".join(row[1:]))):
                yield Figure(place, shown, file, path[1], str(number))


def _equal(shown: str, expected: float) -> bool:
    digits = len(shown.partition(".")[2])
    return abs(Decimal(shown) - Decimal(str(expected))) <= Decimal("0.5000001") * Decimal(10) ** -digits


def _paths(value: Any, path: str = "") -> dict[str, dict[str, float]]:
    if isinstance(value, dict):
        parts = [_paths(each, f"{path}.{name}" if path else name) for name, each in value.items()]
        return {name: each for part in parts for name, each in part.items()}
    listed = value if isinstance(value, list) else [value]
    numbers = [each for each in listed if isinstance(each, int | float)]
    return {path: {str(place): float(each) for place, each in enumerate(numbers)}} if numbers else {}


@cache
def _metrics(folder: Path) -> dict[str, dict[str, float]]:
    """Each agent's measures: the means of its values by question; of a JSON file each path's numbers by place."""
    if folder.suffix == ".json":
        return _paths(json.loads(folder.read_text()))
    found: dict[str, dict[str, float]] = {}
    for agent, row in stored_rows(folder).items():
        known = {name: np.array(values, np.float64) for name, values in row["values"].items()}
        found[agent] = {
            name: float(np.nanmean(values)) * (100 if MEASURES[name].percent else 1)
            for name, values in known.items() if not np.isnan(values).all()
        }  # fmt: skip
        if "seconds" in row:  # without reading, as tables have them
            timed = row["seconds"]
            found[agent]["seconds"] = (timed["total"] - timed["reader"]) / timed["questions"]
        # By judgements, where there are some: nDCG@10, Recall@100, MAP, MRR.
        found[agent] |= {name: float(np.mean(values)) * 100 for name, values in (row.get("ranking") or {}).items()}
    return found


def main() -> int:
    wrong = [problem for name in DOCUMENTS for problem in problems(ROOT / name)]
    print(
        "\n".join(wrong) or f"{sum(len(list(figures(ROOT / name))) for name in DOCUMENTS)} numbers agree with results/"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
