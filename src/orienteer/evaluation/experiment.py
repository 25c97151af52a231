"""`experiment`: agents on questions in one call, with the result as an object instead of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from orienteer.agents import ConfiguredAgent
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import MissingExtraError
from orienteer.evaluation import tables
from orienteer.evaluation.journal import EvaluationError
from orienteer.evaluation.measures import COSTS, MEASURES, SECONDS
from orienteer.evaluation.ranking_measures import RANKING_MEASURES
from orienteer.evaluation.runner import evaluate
from orienteer.evaluation.sessions import OnProgress
from orienteer.evaluation.statistics import TESTED, Comparison, Floats, Statistics, check_measures, paired, read_values
from orienteer.reader.protocol import Reader
from orienteer.session import Settings

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Experiment:
    """The measures of agents on the same questions.

    metrics      agent → measure → mean over questions, in percent except for costs: `passages_read`, `queries`,
                 `refinements_scored`, `passages_scored`, and `seconds` without reading
    values       agent → measure → one value a question [questions], as fractions; NaN where no answer is known
    statistics   intervals and tests against the baselines
    seconds      agent → mean seconds a question, reading included
    out          the folder with reports and sessions; None where it was temporary
    """

    metrics: Mapping[str, Mapping[str, float]]
    values: Mapping[str, Mapping[str, Floats]] = field(repr=False)
    questions: Sequence[str] = field(repr=False)
    statistics: Statistics = field(repr=False)
    seconds: Mapping[str, float]
    out: Path | None = None

    @property
    def agents(self) -> list[str]:
        return list(self.metrics)

    def table(self, format: str = "text", measures: Sequence[str] | None = None) -> str:
        """One row an agent, as aligned `text` or as `markdown`."""
        rows = self._rows(measures)
        match format:
            case "markdown":
                return tables.table(rows[0], [[tables.code(row[0]), *row[1:]] for row in rows[1:]])
            case "text":
                widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
                lines = (
                    "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
                )
                return "\n".join(lines) + "\n"
            case _:
                raise EvaluationError(f"a table as {format!r}; expected text or markdown")

    def compare(
        self, agent: str, baseline: str, measures: Sequence[str] | None = None, *, seed: int = 0
    ) -> list[Comparison]:
        """The paired difference agent - baseline of each measure: bootstrap interval and permutation test.

        Holm's correction is over the measures of this call; None: all that apply to some question.
        """
        if measures is None:
            measures = [m for m in (*RANKING_MEASURES, *TESTED) if m in self.metrics.get(agent, {})] or TESTED
        check_measures(measures)
        for name in (agent, baseline):
            if name not in self.values:
                raise EvaluationError(f"no agent {name!r} in this experiment; expected one of {', '.join(self.values)}")
        columns = {name: 100 * np.stack([self.values[name][m] for m in measures], axis=1) for name in (agent, baseline)}
        judged = ~np.isnan(columns[agent]).any(axis=1)
        if not judged.any():
            raise EvaluationError(
                f"no question to which all of {', '.join(measures)} apply; there is nothing to compare"
            )
        tables = {name: column[judged] for name, column in columns.items()}
        return paired(tables, [(agent, baseline)], measures, seed)

    def to_dataframe(self, *, by_question: bool = False) -> pandas.DataFrame:
        """One row an agent; or `by_question`, one row an agent and question. Needs pandas."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "pandas") from None
        if by_question:
            parts: list[dict[str, Any]] = [
                {"agent": agent, "question": id, **{name: column[row] for name, column in columns.items()}}
                for agent, columns in self.values.items()
                for row, id in enumerate(self.questions)
            ]
            return pandas.DataFrame(parts)
        return pandas.DataFrame.from_dict(self.metrics, orient="index").rename_axis("agent")

    def __repr__(self) -> str:
        return f"Experiment: {len(self.questions)} questions × {len(self.agents)} agents\n{self.table()}"

    def _repr_html_(self) -> str:
        head, *rows = self._rows(None)
        cells = "".join(f"<th>{escape(name)}</th>" for name in head)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"

    def _rows(self, measures: Sequence[str] | None) -> list[list[str]]:
        """The table's head and rows."""
        known = [*RANKING_MEASURES, *MEASURES, SECONDS]
        applying = [name for name in known if any(name in values for values in self.metrics.values())]
        names = applying if measures is None else list(measures)
        if unknown := [name for name in names if name not in known]:
            raise EvaluationError(f"no measure {unknown[0]!r}; expected some of {', '.join(known)}")
        digits = {name: 1 if name in COSTS else 2 for name in names}
        rows = [
            [agent, *(tables.number(values.get(name), digits[name]) for name in names)]
            for agent, values in self.metrics.items()
        ]
        return [["agent", *names], *rows]


def experiment(
    agents: Sequence[str | ConfiguredAgent],
    questions: Iterable[Question],
    *,
    engine: Engine,
    reader: Reader | None = None,
    settings: Settings | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: OnProgress | None = None,
) -> Experiment:
    """Runs every agent on every question and measures it.

    agents     names as `orienteer agents` lists them, or agents of one's own as `ConfiguredAgent`
    reader     None: the shipped one
    out        a folder for sessions, run files and the report, where an interrupted run goes on; None: kept nowhere
    progress   called after each chunk of questions

        result = experiment(["bm25+ps", "pointer"], questions, engine=engine)
        print(result.table())
        print(*result.compare("pointer", "bm25+ps"), sep="\\n")
    """
    if out is None:
        with TemporaryDirectory(prefix="orienteer-") as folder:
            return _run(agents, questions, engine, reader, settings, Path(folder), progress, keep=False)
    return _run(agents, questions, engine, reader, settings, Path(out), progress, keep=True)


def _run(
    agents: Sequence[str | ConfiguredAgent], questions: Iterable[Question], engine: Engine, reader: Reader | None,
    settings: Settings | None, out: Path, progress: OnProgress | None, *, keep: bool,
) -> Experiment:  # fmt: skip
    if reader is None:
        from orienteer.reader import CachedReader, TrainedReader

        reader = CachedReader(TrainedReader.from_pretrained())
    questions = list(questions)
    result = evaluate(
        engine, reader, questions, agents, out, settings=settings, figures=False, texts=keep, progress=progress
    )
    judged = any(question.judgements for question in questions)
    values = read_values(out, list(result.metrics), (*RANKING_MEASURES, *MEASURES) if judged else tuple(MEASURES))
    return Experiment(
        result.metrics, values, [question.id for question in questions], result.statistics, result.seconds,
        out if keep else None,
    )  # fmt: skip
